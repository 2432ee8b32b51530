import{b as E}from"./chunk-6C272O2U.js";import{b as C}from"./chunk-ZMEQWSMH.js";import{a as g,c as x}from"./chunk-23HY57JU.js";import{a as w,b as T,c as y}from"./chunk-2Y5O6VK2.js";import{a as k}from"./chunk-ZTRHV5YN.js";import{b as I}from"./chunk-EQ3BBJIO.js";import"./chunk-ZBQ5L5TM.js";import"./chunk-WGVTZQGU.js";import{a,e as p,i as c,j as $,ja as u,k as m,ka as q,t as h,x as i,y as f,z as b}from"./chunk-37SHY2PI.js";function K({id:e,request:o,watch:t}){let n=t.end.value,d=t.size.value?t.all[t.all.length-1].text:"";return a`<${y} seen=${t.seen.value} end=${n} place=${t.place.value} />
    ${!n&&a`<${w} expected=${t.expected.value} />`}
    ${!n&&a`<p class="last">${t.problem.value||d}</p>`}
    <p role="status">${n?.succeeded?"Ready to pull.":n?"":"You can pull it now: the pull waits for the build."} <a href=${i(e)}>The build and its log</a></p>
    ${!n&&o&&a`<div class="actions"><${k} plain title="Cancel" act=${()=>h("DELETE",`v1alpha2/container/${o}`)} /></div>`}`}function P(e,o,t){let n=u.peek();n.state==="given"&&n.given===o&&(u.value={state:"given",given:{...e,earlier:o.buildId},body:t})}function R({id:e,earlier:o}){let t=o&&!o.startsWith(`${e}_`);return a`<p class="note">The name does not expire, and anyone can pull by it. <a href=${b(e)}>Its page in the catalogue</a> shows what is in the image and how to cite it.</p>
    ${t&&a`<p class="note problem">The packages or the base image have changed since the earlier name was made: the kept image has the current ones.</p>`}`}function V({given:e,body:o}){let t=m(null),[n,d]=c(void 0),s=e.succeeded?void 0:e.buildId;$(()=>{if(t.current?.focus(),!s)return;let l=new E(s);return d(l),()=>l.close()},[e.requestId]);let r=n?.end.value;return r&&!r.succeeded?a`<section class="result" aria-label="The container was not built"><${T} reason=${r.reasonCode} message=${r.message} />
      <div class="actions"><button type="button" class="button" onClick=${q}>Change and try again</button> <a href=${i(e.buildId??"")}>The build and its log</a></div></section>`:a`<section class="result" aria-labelledby="result-title">
    <h2 id="result-title" ref=${t} tabindex="-1">${e.keptId?"Your image is kept":"Your container"}</h2>
    <${I} large text=${e.targetImage} what="the name" />
    <${C} key=${e.targetImage} name=${e.targetImage} body=${e.keptId?{...o,keep:!0}:o} />
    ${s?n&&a`<${K} id=${s} watch=${n} request=${e.keptId?void 0:e.containerToken??e.requestId} />`:a`<p role="status">Ready to pull.${e.buildId?a` <a href=${i(e.buildId)}>The build and its log</a>`:""}</p>`}
    ${e.keptId&&a`<${R} id=${e.keptId} earlier=${e.earlier} />`}
    ${e.expiration&&a`<p class="note">The name works until ${p(e.expiration)}. Anyone who has the name can pull. <a href=${f(e.requestId)}>What is served, and how to revoke it</a></p>`}
    ${!e.keptId&&g(o)&&a`<${x} body=${o} kept=${l=>P(l,e,o)} />`}
  </section>`}export{V as View};
