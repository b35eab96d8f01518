"""Pictures and report pages by one hand: plain text out, no library, no file, no clock.

Internal: its modules may move in any release. Programs import the names of docs/client.md.

Role.   `verify` and `bench` draw their results here. A picture is an SVG that follows the reader's light or dark scheme and says in
        words what it shows; a page is one HTML file that needs nothing else.
Parts.  `palette` colors and patterns by name; `text` widths and numbers; `scales` values to places, with ticks; `canvas` the SVG itself;
        `legend` names beside samples; `frame` one plot with its axes; `timeline` plots above each other on one axis of time, with
        faults; `ratios` rows of points on one axis; `page` the HTML around it.
Rules.  * Pure. Everything that comes from outside is escaped.
        * No meaning by color alone: a band has its pattern and its lane, a line its dash and its name, a point its shape.
        * No label is drawn before its width is known: `text.width` is an upper bound for the fonts that are asked for.
"""
