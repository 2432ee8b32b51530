import{b as C}from"./chunk-ESACK4MX.js";import{b as E}from"./chunk-CRYN3Y5N.js";import{a as g,c as x}from"./chunk-OQQXQBKU.js";import{a as w,b as T,c as y}from"./chunk-RRCGRWWL.js";import{a as k}from"./chunk-UZUHVADN.js";import{b as I}from"./chunk-5HNCFG4J.js";import{a,e as c,h as p,i as $,ia as d,j as m,s as f,w as i,x as h,y as b}from"./chunk-PYH6XOMQ.js";function q({id:e,request:n,watch:t}){let o=t.end.value,u=t.size.value?t.all[t.all.length-1].text:"";return a`<${y} seen=${t.seen.value} end=${o} place=${t.place.value} />
    ${!o&&a`<${w} expected=${t.expected.value} />`}
    ${!o&&a`<p class="last">${t.problem.value||u}</p>`}
    <p role="status">${o?.succeeded?"Ready to pull.":o?"":"You can pull it now: the pull waits for the build."} <a href=${i(e)}>The build and its log</a></p>
    ${!o&&n&&a`<div class="actions"><${k} plain title="Cancel" act=${()=>f("DELETE",`v1alpha2/container/${n}`)} /></div>`}`}function K(e,n,t){let o=d.peek();o.state==="given"&&o.given===n&&(d.value={state:"given",given:{...e,earlier:n.buildId},body:t})}function P({id:e,earlier:n}){let t=n&&!n.startsWith(`${e}_`);return a`<p class="note">The name does not expire, and anyone can pull by it. <a href=${b(e)}>Its page in the catalogue</a> shows what is in the image and how to cite it.</p>
    ${t&&a`<p class="note problem">The packages or the base image have changed since the earlier name was made: the kept image has the current ones.</p>`}`}function R(){let e=document.querySelector("#panel :is(#search, textarea, input[type=text])");e?.scrollIntoView({block:"center"}),e instanceof HTMLElement&&e.focus()}function H({given:e,body:n}){let t=m(null),[o,u]=p(void 0),s=e.succeeded?void 0:e.buildId;$(()=>{if(t.current?.focus(),!s)return;let l=new C(s);return u(l),()=>l.close()},[e.requestId]);let r=o?.end.value;return r&&!r.succeeded?a`<section class="result" aria-label="The container was not built"><${T} reason=${r.reasonCode} message=${r.message} />
      <div class="actions"><button type="button" class="button" onClick=${R}>Change and try again</button> <a href=${i(e.buildId??"")}>The build and its log</a></div></section>`:a`<section class="result" aria-labelledby="result-title">
    <h2 id="result-title" ref=${t} tabindex="-1">${e.keptId?"Your image is kept":"Your container"}</h2>
    <${I} large text=${e.targetImage} what="the name" />
    <${E} key=${e.targetImage} name=${e.targetImage} body=${e.keptId?{...n,keep:!0}:n} />
    ${s?o&&a`<${q} id=${s} watch=${o} request=${e.keptId?void 0:e.containerToken??e.requestId} />`:a`<p role="status">Ready to pull.${e.buildId?a` <a href=${i(e.buildId)}>The build and its log</a>`:""}</p>`}
    ${e.keptId&&a`<${P} id=${e.keptId} earlier=${e.earlier} />`}
    ${e.expiration&&a`<p class="note">The name works until ${c(e.expiration)}. Anyone who has the name can pull. <a href=${h(e.requestId)}>What is served, and how to revoke it</a></p>`}
    ${!e.keptId&&g(n)&&a`<${x} body=${n} kept=${l=>K(l,e,n)} />`}
  </section>`}export{H as View};
