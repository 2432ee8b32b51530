import{C as g,a as o,b as m,g as f,i as u}from"./chunk-ZLDV3JS2.js";var b=8;function w(e){return((e?.created_by??"").replace(/^\/bin\/sh -c #\(nop\)\s*/,"").replace(/^(RUN )?(?:\|\d+ (?:\S+=\S* )*)?\/bin\/sh -c /,"RUN ").replace(/\s*# buildkit$/,"")||e?.comment||"").replace(/\s+/g," ").trim()}function y(e,s){let a=s.filter(r=>!r.empty_layer);return a.length===e?a.map(w):[]}function z({part:e}){return o`<svg class="weight" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect class="all" width="100" height="4" /><rect class="part" width=${Math.max(e*100,.5)} height="4" /></svg>`}function x({layer:e,number:s,part:a,image:r,platform:l}){let[n,$]=u(!1),p=`layer ${s}`,c=`files-${s}`;return o`<li>
    <div class="head"><span class="by">${e.by||"The step that made this layer is not recorded."}</span><span class="number">${e.size?m(e.size):""}</span></div>
    <${z} part=${a} />
    <div class="head"><code class="digest">${e.digest}</code><button type="button" class="link" aria-expanded=${n} aria-controls=${c}
      onClick=${()=>$(!n)}>${n?"Hide":"Show"} files<span class="unseen"> of ${p}</span></button></div>
    <div id=${c} class="inside">${n&&o`<${g} load=${()=>import("./contents-PTJCHS63.js")} image=${r} platform=${l} layer=${e.digest} name=${p} />`}</div></li>`}function L({layers:e,history:s,image:a,platform:r,largestFirst:l,said:n}){let[$,p]=u(!1),c=e.map(t=>t.size??0),d=c.reduce((t,i)=>t+i,0),v=y(e.length,s),h=e.map((t,i)=>({...t,i,size:c[i],by:v[i]}));return l&&h.sort((t,i)=>i.size-t.size),o`<section><h2>Layers</h2>
    <p class="note">${f(e.length,"layer")}${d?`, ${m(d)} to pull`:""}${l&&e.length>1?", the largest first":e.length>1?", the lowest first":""}${n?`, for ${n}`:""}</p>
    <ol class="layers">${h.slice(0,$?void 0:b).map(t=>o`<${x} key=${`${r} ${t.i} ${t.digest}`} layer=${t} number=${t.i+1}
      part=${d?t.size/d:0} image=${a} platform=${r} />`)}</ol>
    ${h.length>b&&!$&&o`<p><button type="button" class="pill" onClick=${()=>p(!0)}>Show all ${h.length}</button></p>`}
  </section>`}export{w as a,L as b};
