'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const byId = (id) => document.getElementById(id);
  for (const key of ['phases', 'findings', 'faults', 'nodes', 'instances', 'notices']) data[key] = data[key] || []; // Go's nil.
  const NS = 'http://www.w3.org/2000/svg';
  const LEFT = 250, RIGHT = 12, WIDEST = 1600;
  const whole = [data.from, Math.max(data.to, data.from + 1)];
  const strip = byId('strip'), lanes = byId('lanes');
  const origin = data.origin;
  let view = whole.slice(), width = 1000, chosen = new Set();

  // at makes an SVG element inside another one.
  const at = (parent, name, attributes, text) => {
    const e = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    if (text !== undefined) e.textContent = text;
    parent.appendChild(e);
    return e;
  };
  const x = (t, v = view) => LEFT + (t - v[0]) / (v[1] - v[0]) * (width - LEFT - RIGHT);
  const moment = (t, digits = 3) => '+' + (t / 1000).toFixed(digits) + ' s';
  const fit = (text, pixels) => {
    const most = Math.max(3, Math.floor(pixels / 6.6));
    return text.length <= most ? text : text.slice(0, most - 1) + '…';
  };

  // show opens the panel with what a mark says, and the facts behind it.
  function show(title, facts) {
    const panel = byId('detail'), body = panel.querySelector('div');
    panel.querySelector('h2').textContent = title;
    body.replaceChildren();
    for (const id of [...new Set(facts || [])]) {
      const fact = data.facts[id], details = document.createElement('details');
      const summary = document.createElement('summary'), pre = document.createElement('pre');
      summary.textContent = 'fact ' + id + (fact ? ': ' + fact.kind + ', ' + moment((fact.span.na - origin) / 1e6) +
        ', by ' + fact.source : ': only in history.jsonl.zst');
      details.dataset.fact = id;
      details.append(summary);
      if (fact) {
        pre.textContent = JSON.stringify(fact, null, 2);
        details.append(pre);
        details.open = (facts || []).length === 1;
      }
      body.append(details);
    }
    panel.hidden = false;
    chosen = new Set(facts || []);
    draw();
  }
  function hide() { byId('detail').hidden = true; chosen = new Set(); draw(); }

  // mark draws a bar that can be clicked.
  function mark(g, b, y, height, kind) {
    const from = x(b.a), to = x(b.b);
    const soft = (a, z) => {
      if (z > LEFT && a < width - RIGHT && z - a > 0.5)
        at(g, 'rect', { x: a, y, width: z - a, height, class: kind + ' maybe' });
    };
    if (b.ma !== undefined) soft(x(b.ma), from);
    if (b.mb !== undefined) soft(to, x(b.mb));
    if (to < LEFT || from > width - RIGHT) return;
    const is = (b.facts || []).some((id) => chosen.has(id));
    const e = at(g, 'rect', { x: from, y, width: Math.max(to - from, 1.5), height, tabindex: 0, role: 'button',
      class: 'mark ' + kind + (is ? ' chosen' : ''), 'data-facts': (b.facts || []).join(' ') });
    const text = b.text + ' (' + moment(b.a) + (b.open ? ', to the end of the record' :
      b.b > b.a ? ' to ' + moment(b.b) : '') + ')';
    at(e, 'title', {}, text);
    e.addEventListener('click', (event) => { if (!moved) { event.stopPropagation(); show(text, b.facts); } });
    e.addEventListener('keydown', (event) => { if (event.key === 'Enter') show(text, b.facts); });
  }

  // Lanes, from top to bottom: each has a label, a height, and what draws it into a group at y.
  const rows = [];
  const lane = (label, sub, height, paint, bold) => rows.push({ label, sub, height, paint, bold });
  const gap = (height) => lane('', '', height, () => {});

  if (data.findings.length) lane('findings', data.findings.length + ' in all', 18, (g, y) => {
    for (const b of data.findings) mark(g, { ...b, b: b.a }, y + 2, 14, 'finding');
  }, true);
  for (const f of data.faults) {
    lane(f.name, f.where, 20, (g, y) => {
      if (f.active) mark(g, f.active, y + 3, 14, 'active');
      for (const s of f.stages) mark(g, { ...s, b: s.a }, y + 1, 18, s.kind === 'failed' ? 'failed' : 'stage');
      const named = f.stages.filter((s) => s.kind !== 'intent' && s.kind !== 'armed');
      named.forEach((s, i) => {
        const next = named[i + 1] ? x(named[i + 1].a) : width - RIGHT, room = next - x(s.a) - 6;
        if (room > 46 && x(s.a) > LEFT - 1) at(g, 'text', { x: x(s.a) + 4, y: y + 14, class: 'soft' },
          fit(s.kind === 'confirmedHealed' ? 'gone' : s.kind, room));
      });
    });
  }
  gap(8);
  for (const n of data.nodes) {
    lane(n.name, '', n.volumes ? 24 : 18, (g, y) => {
      for (const b of n.volumes || []) mark(g, b, y + 17, 4, b.kind);
      for (const b of n.ready || []) mark(g, b, y + 5, 8, b.kind);
      for (const t of n.leases || [])
        if (t >= view[0] && t <= view[1]) at(g, 'line', { x1: x(t), x2: x(t), y1: y + 2, y2: y + 16, class: 'lease' });
      for (const b of n.blind || []) mark(g, b, y + 1, 16, 'hatch');
    });
  }
  gap(8);
  for (const i of data.instances) {
    const colours = new Map(); // Of the processes, as they come.
    lane(i.name, 'pod', 18, (g, y) => { for (const b of i.pods || []) mark(g, b, y + 5, 8, b.kind); }, true);
    if (i.roles) lane('', 'in its group', 16, (g, y) => {
      for (const b of i.roles) mark(g, b, y + 5, 6, b.kind);
      for (const b of i.acts || []) mark(g, b, y + 2, 12, b.kind);
    });
    for (const v of i.volumes || []) {
      const twice = (v.overlaps || []).reduce((sum, b) => sum + b.b - b.a, 0);
      const said = twice ? `on 2 nodes for ${(twice / 1000).toFixed(twice < 10000 ? 1 : 0)} s` :
        i.volumes.length > 1 ? v.name : '';
      (v.rows || []).forEach((r, at0) => lane(at0 ? '' : said, r.node, 22, (g, y) => {
        for (const b of r.attached || []) mark(g, b, y + 1, 20, 'attached');
        for (const b of r.mounted || []) mark(g, b, y + 5, 12, 'mounted');
        for (const b of r.processes || []) {
          const key = r.node + ' ' + b.kind;
          if (!colours.has(key)) colours.set(key, colours.size % 6);
          mark(g, b, y + 8, 6, 'p' + colours.get(key));
        }
        for (const b of r.said || []) mark(g, b, y + 17, 5, 'said');
        if (at0 !== v.rows.length - 1) return;
        const top = y + 22 - 22 * v.rows.length;
        for (const b of v.overlaps || []) {
          mark(g, b, top, 22 * v.rows.length, 'overlap');
        }
      }));
    }
    if (i.clients) lane('', latencyLabel(i.clients), 46, (g, y) => paintClients(g, y, i.clients, i.name));
    gap(10);
  }
  if ((data.notices || []).length) lane('events', 'of the API', 18, (g, y) => {
    for (const b of data.notices) mark(g, { ...b, b: b.a }, y + 3, 12, 'notice ' + b.kind);
  }, true);

  function latencyLabel(c) {
    return c.lostRows ? c.lostRows + ' of ' + c.rows + ' rows lost' : c.judged ? c.rows + ' rows, none lost' :
      c.rows + ' rows, not read back';
  }

  // paintClients draws latencies on a logarithmic scale, what has no certain outcome, and the rows that were lost.
  function paintClients(g, y, c, name) {
    const height = 40, top = Math.log10(Math.max(c.slowest, 10)), up = (v) => y + 2 + height -
      Math.max(0.03, Math.log10(Math.max(v, 1)) / top) * height;
    const first = Math.max(0, Math.floor((view[0] - c.from) / c.step)), last = Math.min(c.count.length - 1,
      Math.ceil((view[1] - c.from) / c.step));
    let worst = '', median = '', pen = false;
    for (let i = first; i <= last; i++) {
      const a = Math.max(x(c.from + i * c.step), LEFT), b = Math.min(x(c.from + (i + 1) * c.step), width - RIGHT);
      if (c.p50[i] < 0) { pen = false; continue; }
      worst += `M${a} ${y + 2 + height}V${up(c.p99[i])}H${b}V${y + 2 + height}Z`;
      median += (pen ? 'L' : 'M') + `${a} ${up(c.p50[i])}H${b}`;
      pen = true;
    }
    at(g, 'path', { d: worst || 'M0 0', class: 'worst' });
    at(g, 'path', { d: median || 'M0 0', class: 'median' });
    const part = (i, kind, text, from, h) => mark(g, { a: c.from + i * c.step, b: c.from + (i + 1) * c.step, text,
      facts: c.facts[i] ? [c.facts[i]] : [] }, from, h, kind);
    for (let i = first; i <= last; i++) {
      if (c.lost[i]) part(i, 'lost', `${name}: ${c.lost[i]} acknowledged rows lost`, y + 2, height);
      if (c.unknown[i] + c.failed[i])
        part(i, 'unsure', `${name}: ${c.unknown[i]} answers unknown, ${c.failed[i]} failed`, y + height - 6, 8);
    }
  }

  // steps between the lines of the axis, in milliseconds.
  function ticks(v) {
    const length = v[1] - v[0];
    const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5]
      .find((s) => length / s <= 10) || length / 8;
    const out = [];
    for (let t = Math.ceil(v[0] / step) * step; t <= v[1]; t += step) out.push([t, step]);
    return out;
  }

  function draw() {
    width = Math.min(lanes.clientWidth || 1000, WIDEST);
    drawStrip();
    const height = rows.reduce((sum, r) => sum + r.height, 4);
    const svg = document.createElementNS(NS, 'svg');
    svg.setAttribute('width', width);
    svg.setAttribute('height', height);
    at(at(svg, 'defs', {}), 'clipPath', { id: 'plot' }).append(
      at(svg, 'rect', { x: LEFT, y: 0, width: width - LEFT - RIGHT, height }));
    hatching(svg);
    for (const [t] of ticks(view)) at(svg, 'line', { x1: x(t), x2: x(t), y1: 0, y2: height, class: 'grid' });
    const plot = at(svg, 'g', { 'clip-path': 'url(#plot)' });
    const alarm = (text) => /rows lost|on 2 nodes/.test(text) ? 'lost' : '';
    let y = 2;
    for (const r of rows) {
      if (r.label) at(at(svg, 'text', { x: 4, y: y + 13, class: r.bold ? 'bold' : alarm(r.label) },
        fit(r.label, r.sub ? 150 : LEFT)), 'title', {}, r.label);
      if (r.sub) at(at(svg, 'text', { x: LEFT - 8, y: y + 14, class: alarm(r.sub) || 'soft',
        'text-anchor': 'end' }, fit(r.sub, r.label ? LEFT - 16 - Math.min(r.label.length * 7, 150) : LEFT - 12)),
      'title', {}, r.sub);
      r.paint(plot, y);
      y += r.height;
    }
    lanes.replaceChildren(svg);
  }
  function hatching(svg) {
    const p = at(svg.querySelector('defs'), 'pattern', { id: 'hatching', width: 5, height: 5,
      patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' });
    at(p, 'line', { x1: 0, x2: 0, y1: 0, y2: 5, class: 'lease', 'stroke-width': 2.5 });
  }

  // The strip shows the whole run, and which part of it the lanes show.
  function drawStrip() {
    const svg = document.createElementNS(NS, 'svg'), tall = 34;
    svg.setAttribute('width', width);
    svg.setAttribute('height', tall + 20);
    const over = (b, y, h, kind) => at(svg, 'rect', { x: x(b.a, whole), y, height: h, class: kind,
      width: Math.max(x(b.b, whole) - x(b.a, whole), 1.5) });
    at(svg, 'text', { x: 4, y: 21, class: 'soft' }, 'whole run, ' + (data.to / 1000).toFixed(0) + ' s');
    for (const b of data.phases) {
      over(b, 2, tall - 4, 'phase');
      const room = x(b.b, whole) - x(b.a, whole);
      if (room > 40) at(svg, 'text', { x: x(b.a, whole) + 4, y: 14, class: 'soft' }, fit(b.kind, room - 6));
    }
    data.faults.forEach((f) => { if (f.active) over(f.active, 18, 5, 'active'); });
    for (const i of data.instances) {
      for (const v of i.volumes || []) for (const b of v.overlaps || []) over(b, 24, 4, 'lost');
      if (i.clients) i.clients.lost.forEach((n, k) => {
        const from = i.clients.from + k * i.clients.step;
        if (n) over({ a: from, b: from + i.clients.step }, 28, 4, 'lost');
      });
    }
    at(svg, 'rect', { x: x(view[0], whole), y: 1, height: tall - 2, class: 'brush',
      width: Math.max(x(view[1], whole) - x(view[0], whole), 3) });
    for (const [t, step] of ticks(view))
      if (x(t) < width - 40) at(svg, 'text', { x: x(t), y: tall + 14, class: 'soft' }, moment(t, step < 1000 ? 3 : 0));
    svg.addEventListener('pointerdown', (event) => {
      const to = (e) => {
        const t = whole[0] + (e.clientX - svg.getBoundingClientRect().left - LEFT) / (width - LEFT - RIGHT) *
          (whole[1] - whole[0]);
        const half = (view[1] - view[0]) / 2;
        look(t - half, t + half);
      };
      to(event);
      follow(to);
    });
    strip.replaceChildren(svg);
  }

  // look shows a part of the run.
  function look(a, b) {
    const least = 5, full = whole[1] - whole[0];
    let length = Math.min(Math.max(b - a, least), full);
    a = Math.min(Math.max((a + b) / 2 - length / 2, whole[0]), whole[1] - length);
    view = [a, a + length];
    draw();
  }
  const zoom = (factor, around = (view[0] + view[1]) / 2) =>
    look(around - (around - view[0]) * factor, around + (view[1] - around) * factor);
  const violation = () => {
    if (!data.focus) return look(...whole);
    const [a, b] = data.focus, length = Math.max(b - a, 10000);
    look(a - Math.max(length / 2, 20000), b + length / 4);
  };

  // follow calls a function at each move of the pointer until it is let go.
  let moved = false;
  function follow(to) {
    const end = () => {
      removeEventListener('pointermove', to);
      removeEventListener('pointerup', end);
      lanes.classList.remove('moving');
      setTimeout(() => { moved = false; });
    };
    addEventListener('pointermove', to);
    addEventListener('pointerup', end);
  }
  lanes.addEventListener('pointerdown', (event) => {
    if (event.clientX - lanes.getBoundingClientRect().left < LEFT) return;
    const from = event.clientX, [a, b] = view;
    follow((e) => {
      if (!moved && Math.abs(e.clientX - from) < 4) return;
      moved = true;
      lanes.classList.add('moving');
      const by = (from - e.clientX) / (width - LEFT - RIGHT) * (b - a);
      look(a + by, b + by);
    });
  });
  lanes.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const t = view[0] + (event.clientX - lanes.getBoundingClientRect().left - LEFT) / (width - LEFT - RIGHT) *
      (view[1] - view[0]);
    zoom(event.deltaY > 0 ? 1.25 : 0.8, t);
  }, { passive: false });
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = (view[1] - view[0]) / 8, keys = {
      ArrowLeft: () => look(view[0] - by, view[1] - by), ArrowRight: () => look(view[0] + by, view[1] + by),
      '+': () => zoom(0.7), '=': () => zoom(0.7), '-': () => zoom(1.4), 0: () => look(...whole), v: violation,
      Escape: hide,
    };
    if (keys[event.key]) { keys[event.key](); if (event.key.startsWith('Arrow')) event.preventDefault(); }
  });
  byId('violation').addEventListener('click', violation);
  byId('whole').addEventListener('click', () => look(...whole));
  byId('in').addEventListener('click', () => zoom(0.7));
  byId('out').addEventListener('click', () => zoom(1.4));
  byId('close').addEventListener('click', hide);
  byId('violation').hidden = !data.focus;

  const copy = byId('copy');
  copy.hidden = false;
  copy.addEventListener('click', () => {
    const range = document.createRange();
    range.selectNodeContents(byId('command'));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    document.execCommand('copy'); // The clipboard API is not there for a page from disk.
    copy.textContent = 'Copied';
    setTimeout(() => { copy.textContent = 'Copy'; }, 1500);
  });

  for (const li of document.querySelectorAll('.findings li')) {
    const open = () => {
      const a = Number(li.dataset.a), b = Number(li.dataset.b), length = Math.max(b - a, 10000);
      view = [a - length, b + length];
      look(...view);
      show(li.querySelector('b').textContent + ': ' + li.querySelector('p').textContent,
        li.dataset.facts.split(' ').filter(Boolean).map(Number));
      byId('timeline').scrollIntoView();
    };
    li.tabIndex = 0;
    li.addEventListener('click', open);
    li.addEventListener('keydown', (event) => { if (event.key === 'Enter') open(); });
  }

  byId('timeline').hidden = false;
  byId('chronicle').open = false;
  addEventListener('resize', draw);
  violation();
})();
