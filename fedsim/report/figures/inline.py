"""Figures as pieces of a page: small SVG in the page's colours, with text as text.

There are no ids and no style attributes, which the page's policy forbids.
"""

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape
from matplotlib.backend_bases import FigureCanvasBase, GraphicsContextBase, RendererBase
from matplotlib.colors import to_hex
from matplotlib.path import Path
from matplotlib.transforms import Affine2D, Transform

from fedsim.report.figures.drawing import COLOURS, GREY, GREYS, PALE, STYLE

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

DOTS = 72  # to the inch: a point of a figure is a pixel of the page
BETWEEN = "\0"  # the parts of a tag
LETTERS = 12.0  # pixels: height of letters
# pixels from the foot of axes to the feet of letters: of the ticks, and of the label
BELOW_AXES = 16
BELOW_TICKS = 34

# of figures on a page, on top of `drawing.STYLE`
PAGE_STYLE: dict[str, Any] = {
    "font.size": LETTERS,
    "xtick.labelsize": LETTERS,
    "ytick.labelsize": LETTERS,
    "text.color": GREY,
    "axes.labelcolor": GREY,
    "xtick.labelcolor": GREY,
    "ytick.labelcolor": GREY,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.major.pad": 6,
    "ytick.major.pad": 6,
    "axes.spines.left": False,
    "axes.spines.bottom": False,
    "axes.grid.axis": "y",
    "grid.linewidth": 1.0,
    "axes.formatter.limits": [-5, 9],
}

VARIABLES = {
    GREY.lower(): "soft",
    PALE.lower(): "faint",
    STYLE["grid.color"].lower(): "rule",
    "#ffffff": "paper",
    **{colour.lower(): f"grey{index}" for index, colour in enumerate(GREYS)},
    **{colour.lower(): f"s{rank}" for rank, colour in enumerate(COLOURS)},
}
ANCHORS = {"left": "start", "center": "middle", "right": "end"}
UPRIGHT_ANCHORS = {"bottom": "start", "center": "middle", "top": "end"}
LETTER_OF_CODE = {Path.MOVETO: "M", Path.LINETO: "l", Path.CURVE3: "q", Path.CURVE4: "c"}


def tag(artist: "Artist", classes: str, name: str = "", title: str = "") -> None:
    """Give what is drawn classes on the page, a method's name for the script, and a tooltip."""
    artist.set_gid(BETWEEN.join((classes, name, title)))


def inline(figure: "Figure", label: str, **attributes: str) -> Markup:
    """A figure as an element `svg`, as wide as what it is in.

    Args:
      figure: drawn with `PAGE_STYLE`.
      attributes: further ones of the element, with a low line for a hyphen.
    """
    figure.set_dpi(DOTS)
    FigureCanvasBase(figure)
    width, height = figure.bbox.size
    renderer = PageRenderer(width, height)
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
        if axes.axison:
            renderer.write_ticks(axes)
            axes.set_axis_off()  # matplotlib's own ticks take half of the time of a picture
    figure.draw(renderer)
    head = f'viewBox="0 0 {_number(width)} {_number(height)}" role="img"'
    for name, value in {**attributes, "aria_label": label}.items():
        head += f' {name.removesuffix("_").replace("_", "-")}="{escape(value)}"'
    return Markup(f"<svg {head}>{''.join(renderer.parts)}</svg>")


def fluid(axes: "Axes", label: str) -> Markup:
    """What lies in axes as an element `svg` of any size, in which marks keep theirs.

    It knows marks, upright and level lines, and bars.
    """
    figure: Any = axes.figure
    figure.set_dpi(DOTS)
    FigureCanvasBase(figure)
    renderer = FluidRenderer(*figure.bbox.size)
    renderer.write_grid(axes)
    figure.patch.set_visible(False)
    axes.patch.set_visible(False)
    axes.set_axis_off()
    figure.draw(renderer)
    inside = "".join(renderer.parts)
    return Markup(f'<svg role="img" aria-label="{escape(label)}">{inside}</svg>')


def ticks_of(axis: "Axis") -> list[tuple[float, str]]:
    """The ticks within an axis: the number and the text of each."""
    low, high = sorted(axis.get_view_interval())
    margin = 1e-9 * (high - low)
    places = np.asarray(axis.get_majorticklocs(), float).tolist()
    ticks = zip(places, axis.get_major_formatter().format_ticks(places), strict=True)
    return [(place, text) for place, text in ticks if low - margin <= place <= high + margin]


def without_style_sheet(picture: Markup) -> Markup:
    """A picture of `inline` with colours of its own, and for text those of what it stands in."""
    colours = {name: colour for colour, name in VARIABLES.items()}
    colours |= {"s4": "currentColor", "soft": "currentColor", "rule": "#8884", "paper": "none"}
    text = re.sub(r"var\(--(\w+)\)", lambda match: colours.get(match[1], match[0]), str(picture))
    look = 'xmlns="http://www.w3.org/2000/svg" fill="currentColor" font-size="11"'
    return Markup(text.replace("<svg ", f"<svg {look} ", 1))


class PageRenderer(RendererBase):
    """Writes what matplotlib draws as elements of SVG."""

    def __init__(self, width: float, height: float) -> None:
        super().__init__()
        self.width = width
        self.height = height
        self.parts: list[str] = []
        self._closing: list[str] = []  # of the open groups

    def write_ticks(self, axes: "Axes") -> None:
        """The ticks of axes, the lines through them that the grid has, and the lower label."""
        box = axes.bbox
        lines = {"x": "", "y": ""}
        for place, text in ticks_of(axes.xaxis):
            x = _number(axes.get_xaxis_transform().transform((place, 0.0))[0])
            lines["x"] += f"M{x} {_number(self.height - box.y1)}v{_number(box.height)}"
            foot = self.height - box.y0
            if axes.xaxis.get_tick_params().get("labelrotation"):
                upright = f"translate({_number(float(x) + 4)} {_number(foot + 8)})rotate(-90)"
                self._write_text(text, f'transform="{upright}"', "end")
            else:
                self._write_text(text, f'x="{x}" y="{_number(foot + BELOW_AXES)}"', "middle")
        for place, text in ticks_of(axes.yaxis):
            y = self.height - axes.get_yaxis_transform().transform((0.0, place))[1]
            lines["y"] += f"M{_number(box.x0)} {_number(y)}h{_number(box.width)}"
            self._write_text(text, f'x="{_number(box.x0 - 6)}" y="{_number(y + 4)}"', "end")
        for axis, drawn in ((axes.xaxis, lines["x"]), (axes.yaxis, lines["y"])):
            if drawn and axis.get_tick_params()["gridOn"]:
                self.parts.append(f'<path d="{drawn}" stroke="var(--rule)"/>')
        middle = _number((box.x0 + box.x1) / 2)
        low = _number(self.height - box.y0 + BELOW_TICKS)
        self._write_text(axes.get_xlabel(), f'x="{middle}" y="{low}"', "middle")

    def _write_text(self, text: str, place: str, anchor: str) -> None:
        if text:
            self.parts.append(f'<text {place} text-anchor="{anchor}">{escape(text)}</text>')

    def get_canvas_width_height(self) -> tuple[float, float]:
        """Width and height of the picture, in pixels."""
        return self.width, self.height

    def points_to_pixels(self, points: float) -> float:
        """At 72 dots to the inch they are the same."""
        return points

    def open_group(self, s: str, gid: str | None = None) -> None:
        """Begin an element `g` for what has a tag."""
        if gid is None:
            self._closing.append("")
            return
        classes, name, title = gid.split(BETWEEN)
        named = f' data-name="{escape(name)}"' if name else ""
        self.parts.append(f'<g class="{classes}"{named}>')
        if title:
            self.parts.append(f"<title>{escape(title)}</title>")
        self._closing.append("</g>")

    def close_group(self, s: str) -> None:
        """End it."""
        self.parts.append(self._closing.pop())

    def draw_path(
        self, gc: GraphicsContextBase, path: Path, transform: Transform, rgbFace: Any = None
    ) -> None:
        """A line or an area, without what lies beyond its axes."""
        moved = transform.transform_path(path)
        drawn = self._outline(_clipped(moved, gc.get_clip_rectangle(), rgbFace is not None))
        if drawn:
            self.parts.append(f'<path d="{drawn}"{_look(gc, rgbFace)}/>')

    def draw_markers(
        self,
        gc: GraphicsContextBase,
        marker_path: Path,
        marker_trans: Transform,
        path: Path,
        trans: Transform,
        rgbFace: Any = None,
    ) -> None:
        """A marker at every point of a path, all as one element; or a single area."""
        points = trans.transform(path.vertices)
        marker = marker_trans.transform_path(marker_path)
        if len(points) == 1 and not points.any():  # the area of a band
            self.draw_path(gc, marker, Affine2D(), rgbFace)
            return
        drawn = ""
        box = gc.get_clip_rectangle()
        for x, y in np.asarray(points).tolist():
            if box is None or box.padded(0.5).contains(x, y):
                drawn += self._marker(marker, x, y)
        if drawn:
            self.parts.append(f'<path d="{drawn}"{_look(gc, rgbFace)}/>')

    def draw_text(
        self,
        gc: GraphicsContextBase,
        x: float,
        y: float,
        s: str,
        prop: Any,
        angle: float,
        ismath: Any = False,
        mtext: Any = None,
    ) -> None:
        """Text at its anchor, since the page's letters are not as wide as matplotlib's."""
        anchor = "start"
        if mtext is not None:
            at_x, at_y = mtext.get_transform().transform(mtext.get_unitless_position())
            if angle:
                y = self.height - at_y
                anchor = UPRIGHT_ANCHORS.get(mtext.get_va(), "middle")
            else:
                x = at_x
                anchor = ANCHORS[mtext.get_ha()]
        place = f'x="{_number(x)}" y="{_number(y)}"'
        if angle:
            place = f'transform="translate({_number(x)} {_number(y)})rotate({-angle:g})"'
        if anchor != "start":
            place += f' text-anchor="{anchor}"'
        colour = VARIABLES.get(to_hex(gc.get_rgb()), "")
        if colour.startswith("s") and colour != "soft":
            place += f' class="{colour}"'
        self.parts.append(f"<text {place}>{escape(s)}</text>")

    def _marker(self, marker: Path, x: float, y: float) -> str:
        if not np.any(marker.codes == Path.CURVE4):
            return self._outline(Affine2D().translate(x, y).transform_path(marker))
        radius = marker.get_extents().width / 2
        half = f"a{_number(radius)} {_number(radius)} 0 1 0 "
        wide = _number(2 * radius)
        return f"M{_number(x - radius)} {_number(self.height - y)}{half}{wide} 0{half}-{wide} 0"

    def _outline(self, path: Path) -> str:
        """The attribute `d` of a path: from every point the way to the next, in tenths."""
        drawn = ""
        last = ""
        at = np.zeros(2, int)
        for vertices, code in path.iter_segments(simplify=False):
            if code == Path.CLOSEPOLY:
                drawn += "z"
                last = "z"
                continue
            points = vertices.reshape(-1, 2) * (1, -1) + (0, self.height)
            tenths = np.rint(10 * points).astype(int)
            letter = LETTER_OF_CODE[code]
            moved = tenths if letter == "M" else tenths - at
            numbers = "".join(map(_tenths, moved.ravel().tolist())).lstrip()
            same = letter == last and not numbers.startswith("-")
            drawn += (" " if same else "" if letter == last else letter) + numbers
            last = letter
            at = tenths[-1]
        return drawn


class FluidRenderer(PageRenderer):
    """Writes places as shares of the picture, and sizes of marks in pixels."""

    def write_grid(self, axes: "Axes") -> None:
        """Lines through the ticks of the lower axis."""
        lines = ""
        for place, _ in ticks_of(axes.xaxis):
            x = self._place(axes.transData.transform((place, 0.0))[0], 0.0)[0]
            lines += f'<line x1="{x}" x2="{x}" y2="100%"/>'
        self.parts.append(f'<g stroke="var(--rule)">{lines}</g>')

    def draw_path(
        self, gc: GraphicsContextBase, path: Path, transform: Transform, rgbFace: Any = None
    ) -> None:
        """An upright or level line, or a bar."""
        points = transform.transform(path.vertices)
        left, top = self._place(points[:, 0].min(), points[:, 1].max())
        right, bottom = self._place(points[:, 0].max(), points[:, 1].min())
        look = _look(gc, rgbFace)
        if rgbFace is None:
            place = f'x1="{left}" y1="{top}" x2="{right}" y2="{bottom}"'
            self.parts.append(f"<line {place}{look}/>")
            return
        wide, high = np.ptp(points, axis=0) / (self.width, self.height)
        size = f'width="{100 * wide:.2f}%" height="{100 * high:.2f}%"'
        self.parts.append(f'<rect x="{left}" y="{top}" {size}{look}/>')

    def draw_markers(
        self,
        gc: GraphicsContextBase,
        marker_path: Path,
        marker_trans: Transform,
        path: Path,
        trans: Transform,
        rgbFace: Any = None,
    ) -> None:
        """A marker at every point of a path."""
        marker = marker_trans.transform_path(marker_path)
        round_one = np.any(marker.codes == Path.CURVE4)
        radius = _number(marker.get_extents().width / 2)
        outline = self._outline(Affine2D().translate(0, self.height).transform_path(marker))
        drawn = ""
        for point in trans.transform(path.vertices).tolist():
            x, y = self._place(*point)
            if round_one:
                drawn += f'<circle cx="{x}" cy="{y}" r="{radius}"/>'
            else:
                drawn += f'<svg x="{x}" y="{y}"><path d="{outline}"/></svg>'
        self.parts.append(f"<g{_look(gc, rgbFace)}>{drawn}</g>")

    def _place(self, x: float, y: float) -> tuple[str, str]:
        """A point in percent of the picture, from its upper left corner."""
        return f"{100 * x / self.width:.2f}%", f"{100 - 100 * y / self.height:.2f}%"


def _clipped(path: Path, box: Any, area: bool) -> Path:
    """What of a path lies within the axes; all of one that does."""
    corners = np.ma.masked_invalid(path.vertices)
    if box is None or not len(corners):
        return path
    wide = box.padded(0.5)
    inside = (corners.min(0) >= wide.min).all() and (corners.max(0) <= wide.max).all()
    if inside:
        return path
    if area:
        return path.clip_to_bbox(box)
    return path.cleaned(clip=tuple(box.extents), simplify=False, curves=True)


def _look(gc: GraphicsContextBase, face: Any) -> str:
    """The attributes of colours, width and dashes."""
    look = f' fill="{_colour(face)}"'
    alpha = 1.0 if face is None or len(face) < 4 else face[3]
    if gc.get_forced_alpha():
        alpha = gc.get_alpha()
    if face is not None and alpha < 1:
        look += f' fill-opacity="{alpha:.2g}"'
    width = gc.get_linewidth()
    stroke = gc.get_rgb()
    if not width or not stroke[3]:
        return look
    look += f' stroke="{_colour(stroke)}"'
    if width != 1:
        look += f' stroke-width="{_number(width)}"'
    if stroke[3] < 1:
        look += f' stroke-opacity="{stroke[3]:.2g}"'
    _, dashes = gc.get_dashes()
    if dashes is not None:
        look += f' stroke-dasharray="{" ".join(map(_number, np.asarray(dashes).tolist()))}"'
    return look


def _colour(colour: Any) -> str:
    if colour is None:
        return "none"
    text = to_hex(colour[:3])
    if text in VARIABLES:
        return f"var(--{VARIABLES[text]})"
    return text


def _number(value: float) -> str:
    """A number rounded to a tenth, as briefly as possible.

    >>> _number(1.04), _number(-0.04)
    ('1', '0')
    """
    if not math.isfinite(value):
        return "0"
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _tenths(number: int) -> str:
    """A number of tenths behind another number.

    >>> _tenths(10), _tenths(-4), _tenths(123)
    (' 1', '-.4', ' 12.3')
    """
    text = f"{abs(number) // 10}.{abs(number) % 10}".removesuffix(".0")
    if text.startswith("0."):
        text = text[1:]
    return f"-{text}" if number < 0 else f" {text}"
