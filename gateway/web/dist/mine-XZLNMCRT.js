import{a as c,b as $,c as f,d as p}from"./chunk-V2GSBWQ2.js";import{a,c as n,e as l,i as u,r as d,t as r,x as m}from"./chunk-ZLDV3JS2.js";var g=20;function h(t){return(t.targetImage?.split("/").at(-1)?.split(":").at(-1)??"").replace(/--[0-9a-f]{16,}(-\w+)*$/,"")||t.buildId}function w({build:t}){let o=t.status!=="COMPLETED"?"running":t.succeeded?"good":"bad";return a`<li><div class="what"><a href=${m(t.buildId)}>${h(t)}</a>
      <p class="note">${[t.platform,t.startTime&&l(t.startTime),t.duration!==void 0&&`took ${n(t.duration)}`].filter(Boolean).join(" · ")}</p></div>
    <span class=${`state ${o}`}>${{running:"Building",good:"Built",bad:t.reasonCode==="cancelled"?"Cancelled":"Failed"}[o]}</span></li>`}function T(){let[t,o]=u(0),i=c(e=>r("GET",`v1alpha1/builds?max=${g}&offset=${t}`,{signal:e}),[t]),s=i.value?.builds??[];return $(i.again,s.some(e=>e.status!=="COMPLETED")?5e3:0),a`<h1>Your builds</h1>
    <${f} of=${i} what="Your builds" />
    ${i.value&&!s.length&&a`<p class="empty">You have not requested a build yet. <a href=${d.href}>Make a container</a>: while you are signed in, its build is listed here.</p>`}
    ${s.length>0&&a`<ul class="rows">${s.map(e=>a`<${w} key=${e.buildId} build=${e} />`)}</ul>
      <${p} what="builds" offset=${t} most=${g} total=${i.value.totalSize??0} go=${o} />
      <p class="note">A name that you pull by is a secret, and is not stored: the page of a build gives you a new one.</p>`}`}export{T as View};
