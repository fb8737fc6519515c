"""`python -m dpsql` is the command `dpsql`."""

from dpsql.interfaces.cli.main import main

if __name__ == "__main__":
    main()
