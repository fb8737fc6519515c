"""`python -m dpsql` is the command `dpsql`."""

from dpsql.interfaces.cli import main

if __name__ == "__main__":
    main()
