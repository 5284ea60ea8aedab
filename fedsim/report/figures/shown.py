"""A figure that a notebook shows, although pyplot does not know it."""

import io

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A figure that is a picture where it is the value of a notebook's cell."""

    def _repr_png_(self) -> bytes:
        """The picture in the figure's own resolution, as IPython asks for it."""
        from fedsim.report.figures.drawing import style

        file = io.BytesIO()
        with style():
            FigureCanvasAgg(self).print_png(file)
        return file.getvalue()
