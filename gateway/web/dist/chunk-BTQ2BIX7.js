import{a,b as n,g as $,i,j as d,r as h,t as p}from"./chunk-ZLDV3JS2.js";function f({at:o,name:c,several:l}){let e=[["explicit","conda","txt"],["conda-lock","conda-lock","yml"],["pixi","pixi","lock"]],t=l?e.slice(1):e;return a`<p class="note download">Download a lock for ${t.map(([s,k,m],r)=>a`${r>0&&(r===t.length-1?" or ":", ")}<a key=${s}
    href=${new URL(`${o}?format=${s}`,h).href} download=${`${c}-${s}.${m}`}>${k}</a>`)}.</p>`}function v({id:o}){let[c,l]=i([]);return d(()=>{p("GET",`v1alpha1/builds/${o}/lock`).then(e=>l(e.locks??[]),()=>l([]))},[o]),c.length?a`<section><h2>Packages</h2>
    ${c.map(e=>a`<div key=${e.platform}>
      <p class="note">${$(e.packages?.length??0,"package")}, ${n(e.size??0)}, for ${e.platform}</p>
      <div class="scroll" tabindex="0" role="region" aria-label=${`Packages for ${e.platform}`}><table>
        <thead><tr><th scope="col">Package</th><th scope="col">Version</th><th scope="col">Licence</th><th scope="col" class="number">Size</th></tr></thead>
        <tbody>${(e.packages??[]).map(t=>a`<tr key=${t.name}><td>${t.name}</td><td>${t.version}</td><td>${t.license??""}</td>
          <td class="number">${t.size?n(t.size):""}</td></tr>`)}</tbody></table></div></div>`)}
    <${f} at=${`v1alpha1/builds/${o}/lock`} name=${o} several=${c.length>1} /></section>`:null}export{f as a,v as b};
