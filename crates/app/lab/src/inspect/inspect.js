"use strict";
// The view of tokens: cards of responses, drawn as far as the reader comes.
(async () => {
  const CARDS = 30;      // drawn at a time
  const TOKENS = 3000;   // of a response drawn at a time
  const SIGNED = {covariance: true, entropy: false, advantage: true, change: true, method: true};
  const UNITS = {covariance: " nats", entropy: " nats", advantage: "", change: " nats", method: ""};
  const at = id => document.getElementById(id);
  const element = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const shown = value => value === null || value === undefined ? "–" : Number(value).toPrecision(3).replace("-", "−");

  let data;
  try {
    data = JSON.parse(await unpacked("data"));
  } catch (error) {
    at("nothing").textContent = `The responses cannot be shown: ${error.message}.`;
    at("nothing").hidden = false;
    return;
  }

  const responses = data.responses.map((response, index) => {
    const finite = values => values.filter(value => value !== null);
    const entropies = finite(response.entropies);
    return Object.assign(response, {
      index,
      length: response.ids.length,
      own: response.ids.length - response.given.reduce((sum, [from, to]) => sum + to - from, 0),
      entropy: entropies.length ? entropies.reduce((a, b) => a + b, 0) / entropies.length : null,
      covariance: finite(response.covariances).reduce((a, b) => a === null || b > a ? b : a, null),
      picked: new Set(response.selected),
      bounded: new Set(response.clipped),
    });
  });
  const isGiven = (response, i) => response.given.some(([from, to]) => from <= i && i < to);
  const advantage = (response, i) => {
    if (isGiven(response, i)) return null;
    return response.advantages.length === 1 ? response.advantages[0] : response.advantages[i];
  };
  const VALUE = {
    covariance: (response, i) => response.covariances[i],
    entropy: (response, i) => response.entropies[i],
    advantage,
    change: (response, i) => response.changes[i],
    method: (response, i) => response.coefficients && response.coefficients[0][i] - response.coefficients[1][i],
  };
  if (data.methods) {
    const option = element("option", "", `change by ${data.methods[0]}`);
    option.value = "method";
    at("colour").append(option);
  }

  // Colours: from none to the end of the scale; beyond it all look alike.
  let colour = "covariance";
  const background = value => {
    if (value === null || value === undefined) return "";
    const share = Math.min(1, Math.abs(value) / data.scales[colour]);
    const hue = !SIGNED[colour] ? "--one" : value < 0 ? "--low" : "--high";
    return share < 0.02 ? "" : `rgb(var(${hue}) / ${(0.6 * share).toFixed(3)})`;
  };
  const legend = () => {
    const end = data.scales[colour];
    const unit = UNITS[colour];
    at("low").textContent = SIGNED[colour] ? shown(-end) + unit : "0";
    at("high").textContent = shown(end) + unit + " and more";
    at("bar").style.background = SIGNED[colour]
      ? "linear-gradient(to right, rgb(var(--low) / 0.6), transparent, rgb(var(--high) / 0.6))"
      : "linear-gradient(to right, transparent, rgb(var(--one) / 0.6))";
  };

  // Cards.
  const token = (response, i) => {
    const piece = response.pieces[i];
    const span = element("span", "t", piece === "" ? `⟨${response.ids[i]}⟩` : piece.replace(/\n/g, "↵\n").replace(/\t/g, "⇥\t"));
    if (piece === "") span.classList.add("bare");
    if (isGiven(response, i)) span.classList.add("given");
    if (response.picked.has(i)) span.classList.add("selected");
    if (response.bounded.has(i)) span.classList.add("clipped");
    span.dataset.i = i;
    span.tabIndex = i === 0 ? 0 : -1;
    span.style.background = background(VALUE[colour](response, i));
    return span;
  };
  const drawTokens = (response, box, most = TOKENS) => {
    const from = box.querySelectorAll(".t").length;
    const to = Math.min(response.length, from + most);
    const drawn = document.createDocumentFragment();
    for (let i = from; i < to; i++) drawn.append(token(response, i));
    box.append(drawn);
    if (to < response.length) {
      const next = element("button", "", `${Math.min(TOKENS, response.length - to)} more of ${response.length} tokens`);
      next.type = "button";
      box.more = most => { next.remove(); delete box.more; drawTokens(response, box, most); };
      next.onclick = () => box.more();
      box.append(next);
    }
  };
  const card = response => {
    const article = element("article");
    article.dataset.index = response.index;
    const header = element("header");
    header.append(element("b", "", response.verdict));
    const facts = [
      `reward ${shown(response.reward)}`,
      response.advantages.length === 0 ? "not trained on"
        : response.advantages.length === 1 ? `advantage ${shown(response.advantages[0])}` : "advantage by token",
      `${response.own} tokens${response.truncated ? ", cut off" : ""}`,
      `mean entropy ${shown(response.entropy)}`,
    ];
    if (response.given.length) {
      const given = response.length - response.own;
      const turns = response.given.length + (response.given[0][0] > 0 ? 1 : 0);
      facts.push(`${turns} turn${turns > 1 ? "s" : ""}, ${given} tokens given`);
    }
    if (response.covariance !== null) facts.push(`largest covariance ${shown(response.covariance)}`);
    if (response.update !== null) facts.push(`update ${response.update}`);
    facts.push(`${response.origin}, sample ${response.sample}`);
    if (response.sampled_step !== data.step) facts.push(`sampled in step ${response.sampled_step}`);
    facts.forEach(fact => header.append(element("span", "", fact)));
    const prompt = element("details");
    prompt.append(element("summary", "", "prompt: " + response.prompt.slice(0, 200)), element("pre", "", response.prompt));
    const box = element("div", "tokens");
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "tokens of the response");
    drawTokens(response, box);
    article.append(header, prompt, box);
    return article;
  };

  // Which responses, in which order; more are drawn as their end comes into sight.
  const end = new IntersectionObserver(seen => { if (seen.at(-1).isIntersecting) draw(); }, {rootMargin: "800px"});
  let found = [];
  let drawn = 0;
  const text = response => response.text ??= (response.prompt + "\n" + response.pieces.join("")).toLowerCase();
  const choose = () => {
    const verdict = at("verdict").value;
    const words = at("search").value.trim().toLowerCase();
    found = responses.filter(response => (verdict === "" || response.verdict === verdict)
      && (words === "" || text(response).includes(words)));
    const by = at("sort").value;
    const key = by.replace("-", "");
    if (key !== "file") {
      const sign = by.startsWith("-") ? 1 : -1;
      const value = response => response[key] === null ? (sign > 0 ? Infinity : -Infinity) : response[key];
      found.sort((a, b) => (value(a) === value(b) ? a.index - b.index : sign * (value(a) < value(b) ? -1 : 1)));
    }
    at("count").textContent = `${found.length} of ${responses.length} responses`;
    at("nothing").textContent = responses.length === 0 ? "No responses of this step are recorded." : "No response is like that.";
    at("nothing").hidden = found.length > 0;
    at("list").replaceChildren();
    drawn = 0;
    hide();
    draw();
  };
  const draw = () => {
    const next = found.slice(drawn, drawn + CARDS);
    at("list").append(...next.map(card));
    drawn += next.length;
    at("more").hidden = drawn >= found.length;
    at("more").textContent = `${found.length - drawn} more responses`;
    // Observed anew, it is told of once more where it is still in sight.
    end.unobserve(at("more"));
    end.observe(at("more"));
  };

  // Paper has no buttons: everything that was found is drawn before it is printed.
  addEventListener("beforeprint", () => {
    while (drawn < found.length) draw();
    for (const box of at("list").querySelectorAll(".tokens")) box.more?.(Infinity);
  });

  // What is known of one token.
  let active = null;
  const responseOf = span => responses[span.closest("article").dataset.index];
  const show = span => {
    if (active) active.classList.remove("active");
    active = span;
    span.classList.add("active");
    const response = responseOf(span);
    const i = Number(span.dataset.i);
    const change = response.changes[i];
    const logprob = response.logprobs[i];
    const quadrant = response.quadrants[i];
    const facts = [
      ["token", response.pieces[i] === "" ? "no text" : JSON.stringify(response.pieces[i]).replace(/\\\\/g, "\\")],
      ["id", response.ids[i]],
      ["place", `${i + 1} of ${response.length}`],
      ["covariance", shown(response.covariances[i])],
      ["entropy", shown(response.entropies[i])],
      ["log-prob", logprob === null ? "–" : `${shown(logprob)} (p ${shown(Math.exp(logprob))})`],
      ["log-prob change", shown(change)],
      ["advantage", shown(advantage(response, i))],
    ];
    if (response.coefficients) {
      data.methods.forEach((name, of) => facts.push([`coefficient, ${name}`, shown(response.coefficients[of][i])]));
    }
    if (quadrant >= 0) facts.push(["quadrant", data.quadrants[quadrant]]);
    if (response.picked.has(i)) facts.push(["picked", "by the covariance method"]);
    if (response.bounded.has(i)) facts.push(["clipped", "yes"]);
    const list = element("dl");
    for (const [name, value] of facts) {
      const pair = element("div");
      pair.append(element("dt", "", name), element("dd", "", value));
      list.append(pair);
    }
    at("details").replaceChildren(list);
    at("details").hidden = false;
  };
  const hide = () => {
    if (active) active.classList.remove("active");
    active = null;
    at("details").hidden = true;
  };
  const spanOf = event => event.target.closest?.("#list .t");
  for (const kind of ["pointerover", "click", "focusin"]) {
    at("list").addEventListener(kind, event => { const span = spanOf(event); if (span) show(span); });
  }
  at("list").addEventListener("keydown", event => {
    const span = spanOf(event);
    if (!span) return;
    const all = [...span.parentElement.querySelectorAll(".t")];
    const here = all.indexOf(span);
    const to = {ArrowRight: here + 1, ArrowDown: here + 10, ArrowLeft: here - 1, ArrowUp: here - 10, Home: 0, End: all.length - 1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = all[Math.max(0, Math.min(all.length - 1, to))];
    span.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  document.addEventListener("keydown", event => { if (event.key === "Escape") hide(); });

  // Controls.
  for (const verdict of [...new Set(responses.map(response => response.verdict))].sort()) {
    const option = element("option", "", verdict);
    option.value = verdict;
    at("verdict").append(option);
  }
  at("sort").onchange = choose;
  at("verdict").onchange = choose;
  let typing = 0;
  at("search").oninput = () => { clearTimeout(typing); typing = setTimeout(choose, 150); };
  at("colour").onchange = () => {
    colour = at("colour").value;
    legend();
    for (const article of at("list").children) {
      const response = responses[article.dataset.index];
      article.querySelectorAll(".t").forEach((span, i) => { span.style.background = background(VALUE[colour](response, i)); });
    }
  };
  at("more").onclick = draw;
  legend();
  choose();
})();
