"""`python -m jaxprtool`."""

from jaxprtool.cli.entry import main

if __name__ == "__main__":
    main()
