"""The command line: parse, call, show. One document of JSON on stdout, one line of JSON on stderr when refused."""
