// What a page shows: every text with its colour and the grounds it may stand on, and what is wider than the window.
(withColours) => {
  const SHAPES = "rect, path, circle, ellipse, polygon, polyline";
  const pixel = document.createElementNS("http://www.w3.org/1999/xhtml", "canvas").getContext("2d", { willReadFrequently: true });
  const parsed = new Map();
  // Any colour that CSS knows as red, green, blue from 0 to 255 and alpha from 0 to 1.
  const parse = (colour) => {
    if (!parsed.has(colour)) {
      pixel.clearRect(0, 0, 1, 1);
      pixel.fillStyle = "transparent";
      pixel.fillStyle = colour;
      pixel.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = pixel.getImageData(0, 0, 1, 1).data;
      parsed.set(colour, [red, green, blue, alpha / 255]);
    }
    return parsed.get(colour);
  };
  const over = (above, below) => above.slice(0, 3).map((part, place) => part * above[3] + below[place] * (1 - above[3]));
  const faded = ([red, green, blue, alpha], by) => [red, green, blue, alpha * by];
  const remembered = (find) => {
    const known = new Map();
    return (element) => {
      if (!known.has(element)) known.set(element, find(element));
      return known.get(element);
    };
  };
  const opacityOf = remembered((at) => Number(getComputedStyle(at).opacity) * (at.parentElement ? opacityOf(at.parentElement) : 1));
  // The colours that an element may lay over a point: more than one where it is hatched or shaded.
  const paints = remembered((element) => {
    const style = getComputedStyle(element);
    const fade = opacityOf(element);
    if (element.matches(SHAPES)) {
      if (style.fill === "none") return [];
      const server = style.fill.match(/url\("?#([^")]+)"?\)/);
      const parts = server ? [...document.getElementById(server[1]).querySelectorAll("*")] : [element];
      const fills = parts.map((part) => getComputedStyle(part)).map((part) => (server && part.stopColor !== "rgb(0, 0, 0)" ? part.stopColor : part.fill));
      return [fills.filter((fill) => fill !== "none").map((fill) => faded(parse(fill), fade * Number(style.fillOpacity)))];
    }
    if (element.closest("svg") && element.tagName !== "svg") return [];
    const shades = style.backgroundImage.match(/(?:rgba?|color|oklab|oklch|lab|lch)\([^()]*\)/g) ?? [];
    return [[parse(style.backgroundColor)], shades.map(parse)].map((layer) => layer.map((each) => faded(each, fade)));
  });
  const canvas = () => {
    const probe = document.createElementNS("http://www.w3.org/1999/xhtml", "i");
    probe.setAttribute("style", "background-color: Canvas");
    document.documentElement.append(probe);
    const colour = parse(getComputedStyle(probe).backgroundColor);
    probe.remove();
    return colour[3] ? colour : [255, 255, 255, 1];
  };
  const base = canvas();
  const groundsAt = (element, x, y) => {
    const stack = document.elementsFromPoint(x, y);
    const place = stack.indexOf(element);
    if (place < 0) return null;
    let grounds = [base];
    for (const below of stack.slice(place).reverse())
      for (const layer of paints(below).filter((each) => each.length))
        grounds = layer.flatMap((above) => grounds.map((ground) => over(above, ground))).slice(0, 32);
    const style = getComputedStyle(element);
    const hasHalo = element.closest("text") && style.stroke !== "none" && style.paintOrder.startsWith("stroke");
    return hasHalo ? grounds.map((ground) => over(faded(parse(style.stroke), opacityOf(element)), ground)) : grounds;
  };
  const inkOf = remembered((element) => {
    const style = getComputedStyle(element);
    const ink = element.closest("text") ? faded(parse(style.fill), Number(style.fillOpacity)) : parse(style.color);
    return faded(ink, opacityOf(element));
  });
  const isShown = (element) => {
    const style = getComputedStyle(element);
    if (style.visibility !== "visible" || style.fontSize === "0px") return false;
    for (let at = element; at; at = at.parentElement) {
      const box = at.getBoundingClientRect();
      if (getComputedStyle(at).position === "absolute" && box.width <= 1 && box.height <= 1) return false;
    }
    return true;
  };
  const rectsOf = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return [...range.getClientRects()].filter((rect) => rect.width > 1 && rect.height > 1);
  };

  const texts = [];
  const walker = document.createTreeWalker(document.body ?? document.documentElement, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const element = node.parentElement;
    if (!node.data.trim() || element.closest("script, style, noscript, title, desc, template, defs")) continue;
    if (rectsOf(node).length && isShown(element)) texts.push([node, element]);
  }

  const everything = new CSSStyleSheet();
  everything.replaceSync("* { pointer-events: auto !important; scroll-behavior: auto !important; transition: none !important; }");
  document.adoptedStyleSheets.push(everything);
  const [left, top] = [scrollX, scrollY];
  const fits = ({ left, right, top, bottom }) => left >= 0 && right <= innerWidth && top >= 0 && bottom <= innerHeight;
  const wide = texts
    .map(([node, element]) => ({ element, text: node.data.trim().slice(0, 60), right: Math.max(...rectsOf(node).map((rect) => rect.right + scrollX)), left: Math.min(...rectsOf(node).map((rect) => rect.left + scrollX)) }))
    .filter(({ left, right }) => left < -1 || right > innerWidth + 1)
    .filter(({ element }) => {
      // What an element of its own cuts off or scrolls is told of below, or was shortened on purpose.
      for (let at = element; at && at !== document.body; at = at.parentElement)
        if (getComputedStyle(at).overflowX !== "visible" && at.getBoundingClientRect().right <= innerWidth + 1) return false;
      return true;
    })
    .map(({ text }) => text);
  const scrollers = [...document.querySelectorAll("*")]
    .filter((each) => each.clientWidth && ["auto", "scroll"].includes(getComputedStyle(each).overflowX) && each.scrollWidth > each.clientWidth + 1)
    .map((each) => [each.id, each.getAttribute("class") ?? "", each.tagName.toLowerCase()]);

  const found = new Map();
  let missed = 0;
  for (const [node, element] of withColours ? texts : []) {
    let isMet = false;
    const isHit = (rect) => groundsAt(element, rect.left + rect.width / 2, rect.top + rect.height / 2);
    const rects = rectsOf(node).slice(0, 3);
    if (!rects.every(fits) || !rects.some(isHit)) element.scrollIntoView({ block: "center", inline: "center" });
    for (const rect of rectsOf(node).slice(0, 3))
      for (const part of [0.1, 0.5, 0.9]) {
        const grounds = groundsAt(element, rect.left + part * rect.width, rect.top + rect.height / 2);
        if (!grounds) continue;
        isMet = true;
        for (const ground of grounds) {
          const ink = over(inkOf(element), ground);
          const key = JSON.stringify([ink, ground]);
          if (!found.has(key)) found.set(key, { ink, ground, text: node.data.trim().slice(0, 60), within: (element.closest("[class], [id]") ?? element).cloneNode(false).outerHTML?.slice(0, 160) ?? "" });
        }
      }
    if (!isMet) missed += 1;
  }
  document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => sheet !== everything);
  scrollTo(left, top);
  return {
    texts: texts.length,
    missed,
    pairs: [...found.values()],
    width: document.documentElement.scrollWidth,
    window: innerWidth,
    wide,
    scrollers,
  };
}
