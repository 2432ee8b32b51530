import{b as q}from"./chunk-GVW6UFIP.js";import{b as C}from"./chunk-IRBB2I32.js";import{a as x,c as w}from"./chunk-IGJ2U36T.js";import{a as T,b as E,c as y}from"./chunk-HAZOJVWS.js";import{a as I}from"./chunk-2QMZ7EL3.js";import{b as g}from"./chunk-QLZOINKV.js";import"./chunk-4DJU6FOW.js";import"./chunk-V2GSBWQ2.js";import{a as n,e as c,i as $,j as m,ja as d,k as f,ka as v,t as h,x as i,y as b,z as k}from"./chunk-ZLDV3JS2.js";function K({id:e,request:t,watch:a}){let o=a.end.value,u=a.size.value?a.all[a.all.length-1].text:"";return n`<${y} seen=${a.seen.value} end=${o} place=${a.place.value} />
    ${!o&&n`<${T} expected=${a.expected.value} />`}
    ${!o&&n`<p class="last">${a.problem.value||u}</p>`}
    <p role="status">${o?.succeeded?"Ready to pull.":o?"":"You can pull it now: the pull waits for the build."} <a href=${i(e)}>The build and its log</a></p>
    ${!o&&t&&n`<div class="actions"><${I} plain title="Cancel" act=${()=>h("DELETE",`v1alpha2/container/${t}`)} /></div>`}`}function P(e,t,a){let o=d.peek();o.state==="given"&&o.given===t&&(d.value={state:"given",given:{...e,earlier:t.buildId},body:a})}function R({id:e,earlier:t}){let a=t&&!t.startsWith(`${e}_`);return n`<p class="note">The name does not expire, and anyone can pull by it. <a href=${k(e)}>Its page in the catalogue</a> shows what is in the image and how to cite it.</p>
    ${a&&n`<p class="note problem">The packages or the base image have changed since the earlier name was made: the kept image has the current ones.</p>`}`}function V({given:e,body:t}){let a=f(null),[o,u]=$(void 0),r=e.succeeded?void 0:e.buildId;m(()=>{if(a.current?.focus(),!r)return;let l=new q(r);return u(l),()=>l.close()},[e.requestId]);let s=o?.end.value,p=t.format==="environment";return s&&!s.succeeded?n`<section class="result" aria-label="The container was not built"><${E} reason=${s.reasonCode} message=${s.message} />
      <div class="actions"><button type="button" class="button" onClick=${v}>Change and try again</button> <a href=${i(e.buildId??"")}>The build and its log</a></div></section>`:n`<section class="result" aria-labelledby="result-title">
    <h2 id="result-title" ref=${a} tabindex="-1">${e.keptId?`Your ${p?"environment":"image"} is kept`:`Your ${p?"environment":"container"}`}</h2>
    <${g} large text=${e.targetImage} what="the name" />
    <${C} key=${e.targetImage} name=${e.targetImage} body=${e.keptId?{...t,keep:!0}:t} format=${t.format} />
    ${r?o&&n`<${K} id=${r} watch=${o} request=${e.keptId?void 0:e.containerToken??e.requestId} />`:n`<p role="status">Ready to pull.${e.buildId?n` <a href=${i(e.buildId)}>The build and its log</a>`:""}</p>`}
    ${e.keptId&&n`<${R} id=${e.keptId} earlier=${e.earlier} />`}
    ${e.expiration&&n`<p class="note">The name works until ${c(e.expiration)}. Anyone who has the name can pull. <a href=${b(e.requestId)}>What is served, and how to revoke it</a></p>`}
    ${!e.keptId&&x(t)&&n`<${w} body=${t} kept=${l=>P(l,e,t)} />`}
  </section>`}export{V as View};
