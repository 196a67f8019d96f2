# SPDX-License-Identifier: MIT
"""NumPy's file format for Views."""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType
from typing import Any

from portamem._dtypes import parse_dtype


class Npy:
    """The functions over one native module that write and read ``.npy`` files."""

    def __init__(self, native: ModuleType) -> None:
        self._native = native

    def save(self, file: Any, array: Any, *, stream: Any = None) -> None:
        """Writes a View, or the bytes of a Buffer, to a ``.npy`` file, which ``numpy.load`` reads too.

        ``file`` is a path, which is overwritten, or a binary file object, from its position on. ``stream``, and the way
        of the bytes, are those of ``Buffer.save``. A View in Fortran order keeps that order.

        Raises TypeError for what is neither a View nor a Buffer of this backend, ValueError for any other View that is
        not contiguous and for elements that the format has no name for, and what ``Buffer.save`` raises.
        """
        if isinstance(array, self._native.Buffer):
            with array.view() as view:
                return self._save(file, view, stream)
        if isinstance(array, self._native.View):
            return self._save(file, array, stream)
        raise TypeError(
            f"save takes a View or a Buffer of the {self._native.backend} backend, not {type(array).__name__}: make "
            "one of it with asarray"
        )

    def load(self, file: Any, *, resource: Any = None, device: Any = None, stream: Any = None) -> Any:
        """Reads a ``.npy`` file to a View of new memory. The memory comes from ``resource``, or else from the current
        resource of ``device``.

        ``file`` is a path or a binary file object, from its position on. The memory is allocated on ``stream``, and the
        bytes get there as with ``Buffer.load``: they are there on return. An array in Fortran order becomes a View that
        is not contiguous, with the same shape.

        Raises ValueError for a file that is no ``.npy`` file, for elements that have no name here and for Python
        objects. For a file that is too short it raises ValueError, or EOFError where the file is not an ordinary one.
        """
        from numpy.lib import format as npy

        from portamem._file_ends import opened

        with opened(file, "rb", "read") as source:
            try:
                version = npy.read_magic(source)
            except ValueError as error:
                raise ValueError(f"this is no .npy file ({error}): Buffer.load reads bytes as they are") from error
            if version == (1, 0):
                shape, is_reversed, dtype = npy.read_array_header_1_0(source)
            elif version == (2, 0):
                shape, is_reversed, dtype = npy.read_array_header_2_0(source)
            else:
                raise ValueError(
                    f"the .npy file is of version {version[0]}.{version[1]}, not of 1.0 or 2.0: numpy.load reads it"
                )
            if dtype.hasobject:
                raise ValueError("the .npy file holds Python objects, which are no bytes: numpy.load reads it")
            extents = shape[::-1] if is_reversed else shape
            made = self._native.empty(extents, dtype, resource=resource, device=device, stream=stream)
            try:
                with made.buffer[: made.nbytes] as whole:
                    whole.load(source, stream=stream)
            except BaseException:
                memory = made.buffer
                made.close()
                with suppress(BufferError):  # a read that a second Ctrl-C left behind is still under way
                    memory.close()
                raise
            return made.T if is_reversed else made

    @staticmethod
    def _save(file: Any, view: Any, stream: Any) -> None:
        from numpy.lib import format as npy

        from portamem import _files

        is_reversed = not view.is_contiguous and view.T.is_contiguous
        if not view.is_contiguous and not is_reversed:
            raise ValueError("the view is not contiguous: copy its elements to memory of their own, and save that")
        if "V" in view.typestr:
            raise ValueError(
                f"the .npy format has no name for elements of type {parse_dtype(view.dtype).name}: save their bits, as "
                f"view('uint{8 * view.itemsize}')"
            )
        header = {"descr": view.typestr, "fortran_order": is_reversed, "shape": view.shape}
        begin = view.handle - view.buffer.handle if view.nbytes else 0
        with view.buffer[begin : begin + view.nbytes] as part:
            _files.save(part, file, stream, lambda target: npy.write_array_header_1_0(target, header))
