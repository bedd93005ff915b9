"""``python -m fairpca``: the command line where the script `fairpca` is on no path."""

from fairpca.cli import main

if __name__ == "__main__":
    main()
