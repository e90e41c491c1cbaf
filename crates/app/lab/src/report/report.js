"use strict";
// Draws the charts of a report with plotly.js. Colours are those of report.css, so that one place has them.
(async () => {
  const root = document.documentElement;
  // What plotly.js calls a dash, and its lengths in a swatch.
  const DASHES = [
    ["solid", ""], ["dash", "7 4"], ["dot", "2 3"], ["dashdot", "7 3 2 3"], ["longdash", "11 4"], ["longdashdot", "11 3 2 3"],
    ["2px,8px", "2 6"], ["9px,3px,2px,3px,2px,3px", "9 3 2 3 2 3"],
  ];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "x", "cross", "triangle-down"];
  const COLOURS = 8;
  const PAPER_WIDTH = 690;

  const fail = (why) => {
    const note = document.createElement("p");
    note.id = "undrawn";
    note.textContent = "The charts cannot be drawn here (" + why + "). The summary and the tables are complete.";
    document.querySelector("main").prepend(note);
    root.dataset.charts = "failed";
  };

  let data;
  try {
    const source = document.createElement("script");
    source.textContent = await unpacked("plotly");
    document.head.append(source);
    data = JSON.parse(await unpacked("data"));
  } catch (error) {
    return fail(String(error));
  }

  // plotly.js takes some markup in texts as HTML; names mean none.
  const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const short = (text) => (text.length > 40 ? text.slice(0, 18) + "…" + text.slice(-20) : text);
  const several = data.runs.length > 1;
  const hidden = new Set();
  const hiddenLines = new Set();
  const hiddenMethods = new Set();
  // Means over the seeds of each method, single runs, or both.
  let drawnAs = data.methods ? "means" : "runs";
  const byMethod = (chart) => drawnAs !== "runs" && chart.x === "step";
  const methodOf = (line) => line.group ?? data.methods.of[line.run];
  const keyOf = (chart, line) => chart.id + " " + line.name;
  const logarithmic = new Set([...document.querySelectorAll("input[data-log][checked]")].map((box) => box.dataset.log));
  const metricOf = {};
  const touch = matchMedia("(pointer: coarse)").matches;
  const menuStays = matchMedia("(hover: none)").matches;

  const style = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const look = (i) => ({
    color: style("--c" + (i % COLOURS)),
    // Eight runs differ in dashes too, and 64 in the pair of both.
    dash: DASHES[(i + Math.floor(i / COLOURS)) % DASHES.length],
    symbol: SYMBOLS[i % SYMBOLS.length],
  });
  const faint = (color) => color + "2e"; // colours are #rrggbb

  function trace(chart, line) {
    const grouped = byMethod(chart);
    const { color, dash: [dash], symbol } = look(
      grouped ? methodOf(line) : several ? line.run : line.metric);
    const named = line.as === "mean" ? data.methods.names[line.group] : several ? data.runs[line.run] : line.name;
    const name = plain(short(named));
    const isHidden = grouped ? hiddenMethods.has(methodOf(line)) : hidden.has(line.run);
    const visible = !isHidden && !hiddenLines.has(keyOf(chart, line));
    const base = { x: line.x, y: line.y, name, visible, type: "scatter" };
    const solid = { color, width: 2, dash };
    switch (line.as) {
      case "band":
        return {
          ...base, x: line.x.concat([...line.x].reverse()), y: line.y.concat([...line.high].reverse()),
          mode: "lines", line: { width: 0 }, fill: "toself", fillcolor: faint(color), hoverinfo: "skip",
        };
      case "interval":
        return {
          ...base, x: [line.x[1]], y: [line.y[1]], mode: "markers", marker: { color, symbol, size: 11, line: { color, width: 1 } },
          error_y: { type: "data", symmetric: false, array: [line.y[2] - line.y[1]], arrayminus: [line.y[1] - line.y[0]], color },
          cliponaxis: false,
        };
      case "points":
        return {
          ...base, mode: "markers", text: line.text.map(plain), marker: { color, symbol, size: 8, opacity: 0.8 },
        };
      case "dotted":
        return { ...base, mode: "lines", line: { color, width: 2, dash: "dot" } };
      case "marked":
        return { ...base, mode: "lines+markers", line: solid, marker: { color, symbol, size: 6 } };
      default:
        return { ...base, mode: "lines", line: { ...solid, dash: chart.x === "step" ? dash : "solid" } };
    }
  }

  // A mean over seeds, with its interval as a band and in words.
  function mean(chart, line) {
    const drawn = trace(chart, line);
    const digits = chart.share ? ".3~p" : ".4~g";
    const said = `%{y} [%{customdata[0]:${digits}}, %{customdata[1]:${digits}}]`;
    // A logarithmic axis has no place for 0, where an interval may end.
    const least = line.y.filter((y) => y > 0).reduce((a, b) => Math.min(a, b), Infinity);
    const floor = logarithmic.has(chart.id) && least < Infinity ? least / 10 : -Infinity;
    const band = trace(chart, { ...line, as: "band", y: line.low.map((low) => Math.max(low, floor)) });
    const ends = line.low.map((low, i) => [low, line.high[i]]);
    return [{ ...band, name: drawn.name }, { ...drawn, customdata: ends, hovertemplate: said }];
  }

  // Many values are drawn faintly, and their means over stretches of steps on top.
  function traces(chart, line) {
    if (line.as === "mean") return mean(chart, line);
    const drawn = trace(chart, line);
    // Beside the means of their methods, single runs are no more than a shade.
    if (drawnAs === "both" && byMethod(chart)) {
      return [{ ...drawn, mode: "lines", line: { ...drawn.line, width: 1 }, opacity: 0.4, hoverinfo: "skip" }];
    }
    if (!line.means) return [drawn];
    const faintly = { ...drawn, line: { color: drawn.line.color, width: 1 }, opacity: 0.35, showlegend: false };
    const means = { ...drawn, x: line.means.map((point) => point[0]), y: line.means.map((point) => point[1]), hoverinfo: "skip" };
    return [faintly, means];
  }

  const ends = (values) => [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];

  // Of two or three seeds a band may be far wider than all that is measured: the axis then ends before it does.
  function reach(chart, lines) {
    if (chart.share || logarithmic.has(chart.id) || !lines.some((line) => line.as === "mean")) return {};
    const [low, high] = ends(lines.flatMap((line) => line.y));
    const room = 0.6 * (high - low || Math.abs(high) || 1);
    const [least, most] = ends(lines.flatMap((line) => [...(line.low ?? line.y), ...(line.high ?? line.y)]));
    const options = {};
    if (least < low - room) options.clipmin = low - room;
    if (most > high + room) options.clipmax = high + room;
    return { autorangeoptions: options };
  }

  function layout(chart, lines) {
    const line = style("--line");
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true, showline: true };
    const ofSteps = chart.x === "step";
    // An axis of shares ends where shares do, whatever is extrapolated.
    const shares = chart.share
      ? { tickformat: ".3~p", hoverformat: ".3~p", autorangeoptions: { clipmin: -0.02, clipmax: 1.02 } }
      : { hoverformat: ".5~g", exponentformat: "power", minexponent: 5, separatethousands: true };
    // What is fitted reaches to the end of the entropy; a little beside it there is room for the mark of the ceiling.
    const toZero = !ofSteps && chart.lines.some((l) => l.as === "band");
    const widest = toZero ? chart.lines.flatMap((l) => l.x).reduce((a, b) => Math.max(a, b), 0) : 0;
    const entropies = toZero ? { range: [-0.03 * widest, 1.05 * widest] } : {};
    const isLog = logarithmic.has(chart.id);
    // Ticks of few steps are whole numbers, each once.
    const [first, last] = ends(ofSteps ? lines.flatMap((l) => l.x) : [0, 1]);
    const few = last >= first && last - first < 10 ? { tick0: 0, dtick: 1, range: [first - 0.5, last + 0.5] } : {};
    return {
      autosize: true,
      margin: { l: 50, r: 14, t: menuStays ? 30 : 10, b: 40 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: style("--quiet"), activecolor: style("--text") },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: style("--text"), family: "system-ui, sans-serif", size: 12 },
      hovermode: ofSteps ? "x unified" : "closest",
      hoverlabel: { bgcolor: style("--panel"), bordercolor: line, font: { color: style("--text") }, namelength: -1 },
      dragmode: touch ? false : "zoom",
      showlegend: false,
      xaxis: {
        ...axis, ...entropies, zeroline: toZero,
        // "step" is said before the first number, and before the number that is pointed at.
        ...(ofSteps
          ? { hoverformat: ",d", tickformat: ",~f", tickprefix: "step ", showtickprefix: "first", ...few }
          : { hoverformat: ".3f", title: { text: chart.x, standoff: 6 } }),
      },
      yaxis: { ...axis, ...shares, ...reach(chart, lines), title: { text: chart.y, standoff: 6 }, type: isLog ? "log" : "linear", zeroline: true },
      uirevision: chart.id + isLog + metricOf[chart.id] + drawnAs,
    };
  }

  const config = (chart) => ({
    responsive: true, displaylogo: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
    toImageButtonOptions: { filename: chart.id },
  });

  // The names of a run's lines above its chart, which switch them on and off; of several runs the page has a legend.
  function keys(chart, lines) {
    const figure = document.getElementById("chart-" + chart.id);
    figure.querySelector(".keys")?.remove();
    const named = new Map(lines.map((line) => [line.name, line]));
    if (several || named.size < 2) return;
    const all = document.createElement("div");
    all.className = "keys";
    for (const [name, line] of named) {
      const { color, dash: [, gaps] } = look(line.metric);
      const button = document.createElement("button");
      const shape = {
        band: ["M1 6H33", 10, "", 0.25], points: ["M17 6h.01", 8, "", 1], interval: ["M17 1V11M17 6h.01", 3, "", 1],
        dotted: ["M1 6H33", 3, "2 3", 1],
      }[line.as] ?? ["M1 6H33", 3, chart.x === "step" ? gaps : "", 1];
      const attributes = { d: shape[0], stroke: color, "stroke-width": shape[1], "stroke-dasharray": shape[2], opacity: shape[3] };
      const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      for (const [key, value] of Object.entries(attributes)) path.setAttribute(key, value);
      path.setAttribute("stroke-linecap", line.as === "points" ? "round" : "butt");
      picture.setAttribute("width", "34");
      picture.setAttribute("height", "12");
      picture.append(path);
      button.type = "button";
      button.append(picture, " " + short(name));
      button.setAttribute("aria-pressed", String(!hiddenLines.has(keyOf(chart, line))));
      button.addEventListener("click", () => {
        const key = keyOf(chart, line);
        hiddenLines.has(key) ? hiddenLines.delete(key) : hiddenLines.add(key);
        draw(chart);
      });
      all.append(button);
    }
    document.getElementById("plot-" + chart.id).before(all);
  }

  // A chart that cannot be drawn says so in its place, and takes no other with it.
  async function draw(chart, width) {
    const figure = document.getElementById("chart-" + chart.id);
    figure.querySelector(".failed")?.remove();
    try {
      await drawn(chart, width);
    } catch (error) {
      const note = document.createElement("p");
      note.className = "failed";
      note.textContent = "This chart cannot be drawn (" + error + ").";
      document.getElementById("plot-" + chart.id).before(note);
    }
  }

  // Runs of a method without a mean stand for themselves among the means of others.
  function isDrawn(chart) {
    if (!byMethod(chart)) return (line) => line.as !== "mean";
    const withMean = new Set(chart.lines.filter((line) => line.as === "mean").map((line) => line.metric + " " + line.group));
    return (line) => drawnAs === "both" || line.as === "mean" || !withMean.has(line.metric + " " + methodOf(line));
  }

  function drawn(chart, width) {
    const one = several || !chart.together;
    const metric = metricOf[chart.id] ?? 0;
    const lines = chart.lines.filter((line) => chart.x !== "step" || !one || line.metric === metric).filter(isDrawn(chart));
    const extent = width ? { autosize: false, width, height: chart.x === "step" ? 280 : 400 } : {};
    keys(chart, lines);
    const all = lines.flatMap((line) => traces(chart, line));
    return Plotly.react("plot-" + chart.id, all, { ...layout(chart, lines), ...extent }, config(chart));
  }

  function swatches() {
    for (const picture of document.querySelectorAll("svg.swatch")) {
      const { color, dash: [, gaps] } = look(Number(picture.dataset.run));
      const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
      line.setAttribute("d", "M1 6H33");
      line.setAttribute("stroke", color);
      line.setAttribute("stroke-width", "3");
      line.setAttribute("stroke-dasharray", gaps);
      picture.replaceChildren(line);
    }
  }

  // One after another, so that the page can be read and scrolled meanwhile.
  async function drawAll() {
    swatches();
    for (const chart of data.charts) {
      await draw(chart);
      await new Promise((done) => setTimeout(done));
    }
  }

  const byId = (id) => data.charts.find((chart) => chart.id === id);
  for (const button of document.querySelectorAll(".legend button[data-run]")) {
    button.addEventListener("click", () => {
      const run = Number(button.dataset.run);
      hidden.has(run) ? hidden.delete(run) : hidden.add(run);
      for (const same of document.querySelectorAll('.legend button[data-run="' + run + '"]')) {
        same.setAttribute("aria-pressed", String(!hidden.has(run)));
      }
      drawAll();
    });
  }
  // Only the legend of what is drawn is there.
  function legends() {
    for (const legend of document.querySelectorAll(".legend.methods")) legend.hidden = drawnAs === "runs";
    for (const legend of document.querySelectorAll(".legend.single")) legend.hidden = drawnAs !== "runs";
  }
  legends();
  for (const button of document.querySelectorAll(".legend button[data-method]")) {
    button.addEventListener("click", () => {
      const method = Number(button.dataset.method);
      hiddenMethods.has(method) ? hiddenMethods.delete(method) : hiddenMethods.add(method);
      button.setAttribute("aria-pressed", String(!hiddenMethods.has(method)));
      drawAll();
    });
  }
  for (const choice of document.querySelectorAll("input[name=drawn]")) {
    choice.checked = choice.value === drawnAs;
    choice.addEventListener("change", () => {
      drawnAs = choice.value;
      legends();
      drawAll();
    });
  }
  for (const choice of document.querySelectorAll("select[data-chart]")) {
    choice.addEventListener("change", () => {
      metricOf[choice.dataset.chart] = Number(choice.value);
      draw(byId(choice.dataset.chart));
    });
  }
  for (const box of document.querySelectorAll("input[data-log]")) {
    box.checked = box.defaultChecked;
    box.addEventListener("change", () => {
      box.checked ? logarithmic.add(box.dataset.log) : logarithmic.delete(box.dataset.log);
      draw(byId(box.dataset.log));
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  // Paper is white and narrow, whatever the screen is.
  addEventListener("beforeprint", () => {
    root.classList.add("paper");
    for (const part of document.querySelectorAll("details.run")) part.open = true;
    swatches();
    for (const chart of data.charts) draw(chart, chart.x === "step" ? PAPER_WIDTH / 2 - 12 : PAPER_WIDTH);
  });
  addEventListener("afterprint", () => {
    root.classList.remove("paper");
    drawAll();
  });

  try {
    await drawAll();
    root.dataset.charts = "drawn";
  } catch (error) {
    fail(String(error));
  }
})();
