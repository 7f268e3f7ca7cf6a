"""The few operations that touch two wings; each a function that takes a transaction first."""
