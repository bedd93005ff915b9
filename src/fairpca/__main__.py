"""``python -m fairpca``: the command line where the script `fairpca` is on no path."""

if __name__ == "__main__":
    from fairpca.cli import main

    main()
