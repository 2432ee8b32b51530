import{a as S,b as L}from"./chunk-NKSEQR74.js";import{c as R}from"./chunk-2HFH7FAO.js";import{a as p}from"./chunk-2QMZ7EL3.js";import{b as x}from"./chunk-QLZOINKV.js";import{J as v,a as i,b as g,e as u,i as d,ia as w,j as b,t as $,v as y,w as k}from"./chunk-ZLDV3JS2.js";function C(){let e=new URLSearchParams(location.search);return{image:e.get("image")??"",platform:e.get("platform")??""}}function P({image:e,platform:t}){let s=new URLSearchParams({image:e,...t&&{platform:t}});history.replaceState(null,"",e&&!v(e)?`?${s}`:location.pathname)}function U(e){let t=(e.index?.manifests??[]).map(s=>[s.platform?.os,s.platform?.architecture,s.platform?.variant].filter(Boolean).join("/"));return[...new Set(t)].filter(s=>s&&!s.startsWith("unknown"))}function f({title:e,list:t}){return t?.length?i`<dt>${e}</dt><dd><code>${t.join(" ")}</code></dd>`:null}function D({steps:e,layers:t}){let s=e.some(o=>o.empty_layer);return!e.length||!s&&e.length===t?null:i`<section><h2>History</h2><ol class="history">${e.map((o,n)=>i`<li key=${n} class=${o.empty_layer?"empty":""}>
    <code>${S(o)||"Not recorded."}</code>${o.empty_layer&&i`<span class="unseen"> (no layer)</span>`}</li>`)}</ol>
    <p class="note">As recorded in the image, unverified.${s&&" Steps in grey made no layer."}</p></section>`}function j({query:e}){let[t,s]=d(void 0);return i`<section><h2>Signatures and other artifacts</h2>
    ${t?t.length?i`<div class="scroll" tabindex="0" role="region" aria-label="Referrers of the image"><table>
        <thead><tr><th scope="col">Kind</th><th scope="col">Digest</th><th scope="col" class="number">Size</th></tr></thead>
        <tbody>${t.map(n=>i`<tr key=${n.digest}><td>${n.artifactType||n.mediaType}</td><td class="digest">${n.digest}</td><td class="number">${g(n.size)}</td></tr>`)}</tbody>
      </table></div>`:i`<p class="note" role="status">The registry has no referrers of this image.</p>`:i`<div class="actions"><${p} plain title="Find referrers" act=${async()=>{let n=`v1alpha1/inspect?referrers=true${e.platform?`&platform=${encodeURIComponent(e.platform)}`:""}`;s((await $("POST",n,{body:{containerImage:e.image}})).referrers??[])}} /></div>`}
  </section>`}function I({query:e}){let[t,s]=d(void 0),o=async()=>{let a=`v1alpha1/inspect/packages${e.platform?`?platform=${encodeURIComponent(e.platform)}`:""}`,{platforms:c=[]}=await $("POST",a,{body:{containerImage:e.image}}),r=c.find(m=>m.platform===e.platform)??c[0];s(r??{})},n=t?.packages??[],l=n.some(a=>a.prefix!==n[0].prefix);return i`<section><h2>Conda packages</h2>
    ${t?n.length?i`<div class="scroll" tabindex="0" role="region" aria-label="Conda packages of the image"><table class="packages">
        <thead><tr><th scope="col">Name</th><th scope="col">Version</th><th scope="col">Build</th><th scope="col">Channel</th><th scope="col">Licence</th>${l&&i`<th scope="col">Environment</th>`}<th scope="col">Layer</th></tr></thead>
        <tbody>${n.map(a=>i`<tr key=${`${a.prefix} ${a.kind} ${a.name} ${a.version} ${a.build}`}><td>${a.name}</td><td>${a.version}</td><td>${a.build}</td>
          <td>${a.channel}${a.kind==="conda"&&a.subdir&&!a.channel?.endsWith(`/${a.subdir}`)?`/${a.subdir}`:""}</td><td>${a.license}</td>${l&&i`<td>${a.prefix}</td>`}<td class="digest" title=${a.layer}>${a.layer?.slice(0,19)}</td></tr>`)}</tbody>
      </table></div>
      ${t.problem&&i`<p class="note" role="status">${t.problem}.</p>`}
      ${t.source==="conda-meta"&&i`<p class="note">From the records of installed packages in the image, since it has no lock.</p>`}`:i`<p class="note" role="status">${t.problem??"The image has no packages."}</p>`:i`<div class="actions"><${p} plain title="Show the packages" act=${o} /></div>`}
  </section>`}function O({query:e,name:t}){let s=async(o,n)=>{let l=new URLSearchParams({image:e.image,format:o,...e.platform&&{platform:e.platform}}),a=URL.createObjectURL(new Blob([await $("GET",`v1alpha1/images/sbom?${l}`,{text:!0})],{type:"application/json"}));Object.assign(document.createElement("a"),{href:a,download:`${t.split("/").pop()?.replace(/[^A-Za-z0-9.-]+/g,"-")}.${n}.json`}).click(),setTimeout(()=>URL.revokeObjectURL(a),6e4)};return i`<section><h2>Bill of materials</h2>
    <p class="note">The packages of Conda, Debian, Alpine, Python and R in the image, with their licences, as a document for other tools.</p>
    <div class="actions"><${p} plain title="Download as SPDX" act=${()=>s("spdx","spdx")} />
      <${p} plain title="Download as CycloneDX" act=${()=>s("cyclonedx","cdx")} /></div>
  </section>`}function T({title:e,lines:t}){return t.length?i`<section><h2>${e}</h2><pre class="source" tabindex="0" aria-label=${e}>${t.join(`
`)}</pre></section>`:null}function A({found:e,query:t,choose:s}){let{container:o}=e,n=o.config?.config??{},l=o.config?.created??"",a=U(e),c=t.platform||a.find(r=>r===`linux/${o.config?.architecture}`);return i`
    <section aria-labelledby="image-title"><h2 id="image-title">${o.registry}/${o.imageName}${o.reference?.includes(":")?"@":":"}${o.reference}</h2>
    ${a.length>1&&i`<div class="choices" role="group" aria-label="Platform">
      ${a.map(r=>i`<button type="button" key=${r} aria-pressed=${r===c} onClick=${()=>s(r)}>${r}</button>`)}</div>`}
    <dl class="facts">
      ${o.config?.architecture&&i`<dt>Platform</dt><dd>${o.config.architecture}</dd>`}
      ${l>"1971"&&i`<dt>Made</dt><dd>${u(l)}</dd>`}
      <${f} title="Entrypoint" list=${n.entrypoint} />
      <${f} title="Command" list=${n.cmd} />
      <${f} title="Folder" list=${n.workingDir?[n.workingDir]:[]} />
      <${f} title="User" list=${n.user?[n.user]:[]} />
      ${o.digest&&i`<dt>Digest</dt><dd><${x} text=${o.digest} what="the digest" /></dd>`}
    </dl></section>
    <${L} layers=${o.manifest?.layers??[]} history=${o.config?.history??[]} image=${t.image} platform=${t.platform} />
    <${I} key=${`packages ${t.image} ${t.platform} ${o.digest}`} query=${{...t,platform:c??""}} />
    <${O} query=${{...t,platform:c??""}} name=${o.imageName??"image"} />
    <${R} key=${`vulnerabilities ${t.image} ${t.platform} ${o.digest}`} query=${{...t,platform:c??""}} />
    <${T} title="Variables" lines=${n.env??[]} />
    <${T} title="Labels" lines=${Object.entries(n.labels??{}).map(([r,m])=>`${r}=${m}`)} />
    <${D} steps=${o.config?.history??[]} layers=${o.manifest?.layers?.length??0} />
    <${j} key=${`${t.image} ${t.platform}`} query=${t} />`}function X(){let[e,t]=d(C),[s,o]=d(e.image),[n,l]=d(void 0),[a,c]=d("");return b(()=>{if(document.title="Look inside an image · Slipway",P(e),!e.image)return;let r=new AbortController;l(void 0),c("");let m=`v1alpha1/inspect${e.platform?`?platform=${encodeURIComponent(e.platform)}`:""}`;return $("POST",m,{body:{containerImage:e.image},signal:r.signal}).then(l,h=>y(h)||c(k(h))),()=>r.abort()},[e]),i`
    <h1>Look inside an image</h1>
    <p class="lead">Any image that this service can read: from a registry, or a name that the service issued.</p>
    <form class="look" onSubmit=${r=>{r.preventDefault(),s.trim()&&t({image:s.trim(),platform:""})}}>
      <label for="image">Image</label>
      <div class="line"><input id="image" type="text" autocapitalize="none" autocomplete="off" spellcheck=${!1} placeholder="docker.io/library/alpine:3.20"
        value=${s} onInput=${r=>o(r.currentTarget.value)} /><button class="button" disabled=${!s.trim()}>Look inside</button></div>
    </form>
    <div role="status">${e.image&&!n&&!a?i`<p class="note">Reading the image…</p>`:""}</div>
    ${a&&i`<div class="failed" role="alert"><h2>The image cannot be read</h2><pre class="why"><${w} text=${a} /></pre></div>`}
    ${n&&i`<${A} found=${n} query=${e} choose=${r=>t({...e,platform:r})} />`}`}export{X as View};
