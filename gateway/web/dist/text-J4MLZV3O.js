import{a as T,b as w,c as D,d as F}from"./chunk-26IF3B54.js";import{$ as s,P as k,Q as g,R as l,S as c,Y as p,Z as b,_ as x,a as o,g as v,i as h,ia as y}from"./chunk-ZLDV3JS2.js";var O=1<<20;function A({id:t,title:a,of:n,example:r,note:E,folder:f}){let[d,i]=h(""),u=async e=>{e&&(e.size>O?i(`${e.name} is larger than 1 MiB.`):(n.value=await e.text(),i("")))};return o`<div class="recipe">
    <div class="head"><label for=${t}>${a}</label><label class="open">Open a file<input type="file" class="unseen"
      onChange=${e=>u(e.currentTarget.files[0])} /></label></div>
    <textarea id=${t} rows="12" spellcheck=${!1} autocapitalize="none" placeholder=${r} aria-describedby=${`${t}-note`} value=${n.value}
      onInput=${e=>n.value=e.currentTarget.value}
      onDrop=${e=>{if(!e.dataTransfer?.files.length)return;e.preventDefault();let m=e.dataTransfer.items[0]?.webkitGetAsEntry()?.isDirectory;m&&f?f(e.dataTransfer).catch($=>i($ instanceof T?$.message:"The folder cannot be read.")):m?i("This is a folder; drop a file instead."):u(e.dataTransfer.files[0])}}></textarea>
    <p class="note" id=${`${t}-note`}>${E}</p>
    ${d&&o`<p class="note problem" role="alert"><${y} text=${d} /></p>`}
  </div>`}async function C(t){let a=t.find(n=>n.path==="Dockerfile");a&&!l.value.trim()&&(l.value=await a.file.text())}async function P(t){let{items:a}=await D(t);c.value=await w(a,""),l.value="",await C(a)}function B(){return o`<${A} id="dockerfile" title="Dockerfile" of=${l} folder=${P}
    example=${`FROM docker.io/library/debian:bookworm-slim
RUN apt-get update && apt-get install -y …`}
    note="Write or paste it, or drop the file here, or the folder that it is in." />
    <${F} folder title="Folder that it copies from" note="For a COPY, drop the folder here, or" of=${c} taken=${C} />`}function G(){let{title:t,names:a,label:n}=b.value;return o`<${A} id="environment" title="environment.yml" of=${k}
    example=${`channels:
  - conda-forge
  - bioconda
dependencies:
  - samtools=1.20`}
    note="Paste it, or drop the file here: also a pixi.toml or pyproject.toml, or a lock of conda, conda-lock or pixi. Packages of pip are resolved during the build." />
    ${a.length>1&&o`<p class="space"><label for="environment-name">${t}</label>
      <select id="environment-name" value=${x.value} onChange=${r=>g.value=r.currentTarget.value}>
        ${a.map(r=>o`<option key=${r} value=${r}>${n(r)}</option>`)}
      </select></p>`}
    ${s.value&&o`<p class="note" role="status">${s.value.length?`A lock: exactly its ${v(s.value.length,"package")} for ${p.value[0]}, and nothing else.`:`A lock, with no packages for ${p.value.join(" and ")}.`}</p>`}`}export{B as Dockerfile,G as Environment};
