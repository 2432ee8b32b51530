import{a as R,b as w}from"./chunk-6ONWBRBO.js";import"./chunk-NKSEQR74.js";import{d as O}from"./chunk-JT6646OP.js";import"./chunk-2HFH7FAO.js";import{b as m}from"./chunk-IGJ2U36T.js";import{a as N,b as A}from"./chunk-HAZOJVWS.js";import{a as g}from"./chunk-2QMZ7EL3.js";import{b as I}from"./chunk-QLZOINKV.js";import"./chunk-4DJU6FOW.js";import"./chunk-V2GSBWQ2.js";import{a as n,b as T,ba as S,ca as z,e as c,fa as D,ga as F,i as l,j as h,r as y,s as x,t as u,w as P,x as C,y as E,z as q}from"./chunk-ZLDV3JS2.js";var $=t=>!!t.revocationTime||!t.freeze&&!!t.expiration&&new Date(t.expiration).getTime()<Date.now(),b=t=>!$(t)&&!!t.targetImage;function V(t,e){return t.revocationTime?[`It was revoked on ${c(t.revocationTime)}.`,"bad"]:$(t)?[`Its name worked until ${c(t.expiration??"")}.`,"bad"]:e?e.status==="SCANNING"?["It is being scanned. Pulling waits for it.","running"]:e.status!=="DONE"?[e.position?`Its build waits in the queue, at place ${e.position}. Pulling waits for it.`:"It is being built. Pulling waits for it.","running"]:e.succeeded?["Ready to pull.","good"]:[e.reasonCode==="scan"?"Its scan does not allow it.":"Its build failed.","bad"]:["Loading its status…","running"]}function W(t){return t.map((e,i)=>n`<li key=${i}>${e.location&&!e.location.startsWith("data:")?e.location:"files that were sent with the request"}${e.gzipSize?`, ${T(Number(e.gzipSize))}`:""}</li>`)}function K({request:t}){let e=t.containerConfig??{},i=(a,s)=>s&&n`<dt>${a}</dt><dd><code>${s}</code></dd>`;return n`<section><h2>The request</h2><dl class="facts">
    ${i(t.buildId?"Built as":"Image",t.containerImage)}
    ${t.containerPlatform&&n`<dt>Platform</dt><dd>${t.containerPlatform.split(",").join(" and ")}</dd>`}
    ${i("Program",e.entrypoint?.join(" "))}
    ${i("Arguments",e.cmd?.join(" "))}
    ${i("Folder",e.workingDir)}
    ${e.env?.length&&n`<dt>Variables</dt><dd><code>${e.env.join(" ")}</code><span class="note"> Their values are not shown.</span></dd>`}
    ${e.layers?.length&&n`<dt>Files</dt><dd><ul class="plain">${W(e.layers)}</ul></dd>`}
    ${t.containerIncludes?.length&&n`<dt>Layers of</dt><dd><ul class="plain">${t.containerIncludes.map(a=>n`<li key=${a}><code>${a}</code></li>`)}</ul></dd>`}
    ${t.creationTime&&n`<dt>Requested</dt><dd>${c(t.creationTime)}${t.userId?`, by user ${t.userId}${t.workspaceId?` in the workspace ${t.workspaceId}`:""}`:""}</dd>`}
    ${t.workflowId&&n`<dt>For the run</dt><dd>${t.workflowId}</dd>`}
    ${t.digests?.length&&n`<dt>Served digest</dt><dd><${I} text=${t.digests[0]} what="the digest" /></dd>`}
  </dl></section>`}function M({at:t,request:e,changed:i}){let[a,s]=l(!1);if($(e)||e.freeze||m(e.targetImage))return null;let d=async()=>{await u("DELETE",`v1alpha2/container/${t}`),i()};return n`<section><h2>Expiration</h2>
    <p>${e.expiration?`The name works until ${c(e.expiration)}.`:""} Anyone who has the name can pull; revoke it if someone has it who should not. The address of this page does not contain the name.</p>
    ${a?n`<p role="status">The name can no longer be pulled then. A running build is cancelled unless another request uses it.</p>
        <div class="actions"><${g} title="Revoke it" act=${d} /><button type="button" class="pill" onClick=${()=>s(!1)}>Keep it</button></div>`:n`<p><button type="button" class="pill" onClick=${()=>s(!0)}>Revoke the name</button></p>`}
  </section>`}function ie({id:t}){let[e,i]=l(void 0),[a,s]=l(void 0),[d,j]=l(void 0),r=F(t),k=()=>u("GET",`v1alpha2/container/${r}`).then(i,j);if(h(()=>{document.title="Container · Slipway",k()},[t]),h(()=>{if(!e||$(e))return;let o,v=async()=>{let f=await u("GET",`v1alpha2/container/${r}/status`).catch(()=>{});o!==0&&(f&&s({...f,asked:Date.now()}),f?.status!=="DONE"&&(o=setTimeout(v,3e3)))};return v(),()=>{clearTimeout(o),o=0}},[e]),d&&!e){let o=d instanceof x&&d.status===404;return n`<h1>${o?"There is no such container":"The container cannot be shown"}</h1><p class="lead">${o?"The address may be incomplete, or the request was deleted.":P(d)}</p><p><a class="button" href=${y.href}>Make a container</a></p>`}if(!e)return n`<h1 class="id">Container</h1><p role="status">Looking it up…</p>`;let[G,L]=V(e,a),p=r!==e.requestId||e.userId!==void 0,B=async()=>{let o=await u("POST",`v1alpha2/container/${r}/name`);D(o),location.assign(E(o.requestId))};return n`
    <h1 class="id">Container</h1>
    <p class=${`verdict ${L}`} role="status">${G}</p>
    ${a?.asked&&a.expectedEnd!==void 0&&n`<${N} expected=${{start:a.asked+1e3*(a.expectedStart??0),end:a.asked+1e3*a.expectedEnd}} />`}
    ${a?.succeeded===!1&&n`<${A} reason=${a.reasonCode} message=${a.message} />`}
    ${!p&&n`<p class="note">The address of this page gives no access to the image. Its name and its configuration are shown only in the tab that requested it, and to the signed-in user who requested it.</p>`}
    ${b(e)&&n`<${I} large text=${e.targetImage} what="the name" />`}
    <div class="actions">${p&&!b(e)&&!e.revocationTime&&a?.succeeded!==!1&&n`<${g} title="Get a fresh name" act=${B} />`}
      ${z(e)&&n`<button type="button" class="pill" onClick=${()=>S({...e,platform:e.containerPlatform})}>Build again</button>`}
      ${e.buildId&&n`<a href=${C(e.buildId)}>The build and its log</a>`}
      ${m(e.targetImage)&&n`<a href=${q(m(e.targetImage))}>Its page in the catalogue</a>`}</div>
    <${K} request=${e} />
    ${a?.succeeded&&e.targetImage&&!$(e)&&!e.targetImage.startsWith("oras://")&&n`<${R} name=${async()=>e.targetImage??""} platform=${e.containerPlatform} />`}
    ${a?.scanId&&n`<${O} at=${`v1alpha1/scans/${a.scanId}`} name=${b(e)&&!e.freeze?e.targetImage:""} />`}
    ${p&&n`<${M} at=${r} request=${e} changed=${k} />`}
    <${w} title="Dockerfile" text=${e.containerFile} />
    <${w} title="Conda environment" text=${e.condaFile} />`}export{ie as View};
