// What a browser sees of the texts in a page: clipped, standing on each other, or too faint. Gives a list of complaints.
([inside]) => {
  const found = [];
  const said = (node) => JSON.stringify(node.textContent.trim().slice(0, 60));
  const channels = (color) => {
    const parts = color.match(/[\d.]+/g).map(Number);
    return { rgb: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1 };
  };
  const light = (color) => {
    const [r, g, b] = color.map((one) => {
      const share = one / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const faint = (node, color, ground) => {
    const ratio = contrast(channels(color).rgb, ground);
    if (ratio < 4.5) found.push(`${said(node)} has a contrast of ${ratio.toFixed(2)}`);
  };
  for (const svg of document.querySelectorAll("svg")) {
    const [left, top, width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    const grounds = [...svg.querySelectorAll("rect.f-surface, rect.f-panel")].map((rect) => ({
      box: rect.getBBox(),
      color: channels(getComputedStyle(rect).fill).rgb,
    }));
    const texts = [...svg.querySelectorAll("text")].map((node) => ({ node, box: node.getBBox() }));
    for (const { node, box } of texts) {
      const right = box.x + box.width;
      const bottom = box.y + box.height;
      if (box.x < left || box.y < top || right > left + width || bottom > top + height)
        found.push(`${said(node)} is clipped: ${box.x.toFixed(0)}..${right.toFixed(0)} of ${width}, ${bottom.toFixed(0)} of ${height}`);
      const middle = [box.x + box.width / 2, box.y + box.height / 2];
      for (const { box: ground, color } of grounds)
        if (ground.x <= middle[0] && middle[0] <= ground.x + ground.width && ground.y <= middle[1] && middle[1] <= ground.y + ground.height)
          faint(node, getComputedStyle(node).fill, color);
    }
    texts.forEach((one, place) => {
      for (const other of texts.slice(place + 1)) {
        const across = Math.min(one.box.x + one.box.width, other.box.x + other.box.width) - Math.max(one.box.x, other.box.x);
        const down = Math.min(one.box.y + one.box.height, other.box.y + other.box.height) - Math.max(one.box.y, other.box.y);
        // A line's box has room above its letters and below: two of them may share a little of it.
        if (across > 0.5 && down > 3) found.push(`${said(one.node)} stands on ${said(other.node)}`);
      }
    });
  }
  if (!inside) return found;
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) found.push(`the page is ${root.scrollWidth} wide in a window of ${root.clientWidth}`);
  const groundOf = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = channels(getComputedStyle(at).backgroundColor);
      if (color.alpha > 0) return color.rgb;
    }
    return [255, 255, 255];
  };
  for (const node of document.querySelectorAll("body *:not(svg *)"))
    if ([...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.textContent.trim()))
      faint(node, getComputedStyle(node).color, groundOf(node));
  return found;
}
