import{a as q,b as E,c as k}from"./chunk-JT6646OP.js";import{a as S,b as h}from"./chunk-2HFH7FAO.js";import"./chunk-2QMZ7EL3.js";import{b as y}from"./chunk-QLZOINKV.js";import{C as I,a as o,c as p,e as s,g as l,i as f,ia as m,j as c,o as g,r as u,s as b,t as v,w as $,x as T,y as w}from"./chunk-ZLDV3JS2.js";function F(t){let e=Math.floor((Date.now()-new Date(t).getTime())/864e5);return e>0?`${s(t)}, ${l(e,"day")} old`:s(t)}function L({scan:t}){let e=t.buildId??t.mirrorId;return o`<dl class="facts">
    <dt>Image</dt><dd><code>${t.containerImage}</code></dd>
    ${t.platform&&o`<dt>Platform</dt><dd>${t.platform.split(",").join(" and ")}</dd>`}
    ${t.digest&&o`<dt>Digest</dt><dd><${y} text=${t.digest} what="the digest" /></dd>`}
    <dt>Tolerated</dt><dd>${(t.scanLevels??[]).join(", ").toLowerCase()||"nothing"}; the scan is ${t.scanMode==="required"?"required":"not required"}</dd>
    ${t.status==="SUCCEEDED"&&o`<dt>Found</dt><dd>${S(t.counts)} in ${l(t.packages??0,"package")}</dd>`}
    ${t.startTime&&o`<dt>Scanned</dt><dd>${s(t.startTime)}${t.duration?`, in ${p(Number(t.duration)/1e9)}`:""}</dd>`}
    ${t.databaseTime&&o`<dt>With data of</dt><dd>${F(t.databaseTime)}</dd>`}
    <dt>Requested as</dt><dd><a href=${w(t.requestId)}>The request</a>${e&&o`, <a href=${t.mirrorId?new URL(`view/mirrors/${encodeURIComponent(e)}`,u).href:T(e)}>the ${t.mirrorId?"mirror":"build"} and its log</a>`}</dd>
  </dl>`}function x({scan:t}){let e=t.vulnerabilities??[],a=e.filter(n=>!n.status),d=e.filter(n=>n.status),r=[...(t.gaps??[]).map(n=>`${n}.`),...t.note?[t.note]:[]];return o`
    ${a.length>0&&o`<section><h2>Found</h2><${h} list=${a} name="Vulnerabilities of the image" /><${k} scan=${t} /></section>`}
    ${d.length>0&&o`<section><h2>Ruled out</h2><p class="note">OpenVEX documents state that these do not affect the image, so they do not count.</p>
      <${h} list=${d} name="Vulnerabilities that are ruled out" /></section>`}
    ${r.length>0&&o`<section><h2>Not covered</h2><ul class="plain">${r.map((n,i)=>o`<li key=${i}>${n}</li>`)}</ul></section>`}`}function C({failure:t}){let e=t instanceof b?t.status:void 0,[a,d]=f("");c(()=>{e===404&&v("GET","v1alpha1/abilities").then(({abilities:n=[]})=>{let i=n.find(D=>D.name==="scan");i&&!i.available&&d(`This server does not scan images: ${i.problem}.`)},()=>{})},[e]);let r=e===401&&!g.value;return o`<h1>The scan cannot be shown</h1><p class="lead" role="alert">${r?"The scan belongs to the request of a user: sign in as that user.":$(t)}</p>
    ${a&&o`<p>${a}</p>`}
    ${r?o`<${I} load=${()=>import("./login-4LHK5XRG.js")} />`:o`<p><a class="button" href=${u.href}>Make a container</a></p>`}`}function A({id:t}){let{scan:e,failure:a}=q(`v1alpha1/scans/${t}`);if(c(()=>{document.title=`Scan ${t} · Slipway`},[t]),a&&!e)return o`<${C} failure=${a} />`;if(!e)return o`<h1 class="id">Scan <code>${t}</code></h1><p role="status">Looking it up…</p>`;let[d,r]=E(e);return o`<h1 class="id">Scan <code>${t}</code></h1>
    <p class=${`verdict ${r}`} role="status">${d}</p>
    ${e.status==="FAILED"&&e.reason&&o`<div class="failed" role="alert"><h2>Why</h2><pre class="why"><${m} text=${e.reason} /></pre></div>`}
    <${L} scan=${e} /><${x} scan=${e} />
    ${a&&o`<p class="note problem" role="alert"><${m} text=${$(a)} /></p>`}`}export{A as View};
