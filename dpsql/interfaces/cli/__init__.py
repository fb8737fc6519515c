"""The command line: `dpsql`."""
