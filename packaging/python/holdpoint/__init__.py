"""Holdpoint, the program: where it is. Whoever speaks to a server needs no package for it, any gRPC or HTTP client does."""

import os
import sys
import sysconfig

__all__ = ["find_holdpoint_bin"]


def find_holdpoint_bin():
    """The path of the program that this package brought."""
    user = sysconfig.get_preferred_scheme("user") if sys.version_info >= (3, 10) else "posix_user"
    folders = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", scheme=user)]
    # With `pip install --target` the programs are beside the packages.
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"))
    for folder in folders:
        path = os.path.join(folder, "holdpoint")
        if os.path.isfile(path):
            return path
    looked = ", ".join(folders)
    raise FileNotFoundError(
        f"the program of the package holdpoint is not there (looked in {looked}); "
        "install it again: pip install --force-reinstall holdpoint"
    )
