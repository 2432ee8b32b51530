import{a as l}from"./chunk-Z3MSLB5G.js";function m({title:n,head:c,rows:s}){return l`<details class="behind"><summary>As a table<span class="unseen">: ${n}</span></summary>
    <div class="scroll" tabindex="0" role="region" aria-label=${n}><table>
      <thead><tr>${c.map((e,o)=>l`<th scope="col" key=${e} class=${o?"number":""}>${e}</th>`)}</tr></thead>
      <tbody>${s.map(e=>l`<tr key=${e[0]}>${e.map((o,p)=>l`<td class=${p?"number":""}>${o}</td>`)}</tr>`)}</tbody></table></div></details>`}function r(n){if(!(n>0))return 1;let c=10**Math.floor(Math.log10(n));return([1,2,3,4,5,6,8].find(s=>s*c>=n*.999)??10)*c}function f({title:n,note:c,rows:s,say:e,end:o=r}){if(!s.length)return null;let p=o(Math.max(...s.map(a=>Math.max(a.max,a.asked??0)))),t=a=>Math.min(100,100*a/p),i=s.some(a=>a.asked);return l`<figure class="plot"><figcaption><strong>${n}</strong> <span class="note">${c}</span></figcaption>
    <div class="spreads" aria-hidden="true">${s.map(a=>l`<span class="name" title=${a.name} key=${`n-${a.name}`}>${a.name.split(":").at(-1)}</span>
      <svg viewBox="0 0 100 10" preserveAspectRatio="none" key=${a.name}>
        <line class="axis" x1="0" x2="100" y1="5" y2="5" /><line class="range" x1=${t(a.min)} x2=${t(a.max)} y1="5" y2="5" />
        <line class="half" x1=${t(a.q1)} x2=${Math.max(t(a.q3),t(a.q1)+.6)} y1="5" y2="5" />
        <line class="median" x1=${t(a.median)} x2=${t(a.median)} y1="1" y2="9" />
        ${a.asked?l`<line class="asked" x1=${Math.min(99.5,t(a.asked))} x2=${Math.min(99.5,t(a.asked))} y1="0" y2="10" />`:null}</svg>
      <span class="number">${e(a.median)}</span>`)}
      <span></span><span class="ends"><span>0</span><span>${e(p)}</span></span><span></span></div>
    <${m} title=${n} head=${["Process","Tasks","Least","Median","Most",...i?["Requested"]:[]]}
      rows=${s.map(a=>[a.name,a.count,e(a.min),e(a.median),e(a.max),...i?[a.asked?e(a.asked):""]:[]])} /></figure>`}function v({title:n,note:c,points:s,say:e,when:o}){if(s.length<2)return null;let p=s[0][0],t=s[s.length-1][0]-p||1,i=r(Math.max(...s.map(([,$])=>$))),a="M0 40",u=0;for(let[$,d]of s){let g=(100*($-p)/t).toFixed(2);a+=`L${g} ${(40-40*u/i).toFixed(2)}L${g} ${(40-40*d/i).toFixed(2)}`,u=d}let x=Math.ceil(s.length/100);return l`<figure class="plot"><figcaption><strong>${n}</strong> <span class="note">${c}</span></figcaption>
    <div class="course" aria-hidden="true"><span class="upto">${e(i)}</span><svg viewBox="0 0 100 40" preserveAspectRatio="none"><path class="area" d=${`${a}L100 40Z`} /></svg>
      <span class="ends"><span>${o(p)}</span><span>${o(p+t)}</span></span></div>
    <${m} title=${n} head=${["Time",n]} rows=${s.filter(($,d)=>d%x===0).map(([$,d])=>[o($),e(d)])} /></figure>`}function k({title:n,note:c,bars:s,say:e,what:o}){let p=r(Math.max(...s.map(i=>i.value))),t=100/s.length;return l`<figure class="plot"><figcaption><strong>${n}</strong> <span class="note">${c}</span></figcaption>
    <div class="course" aria-hidden="true"><span class="upto">${e(p)}</span><svg viewBox="0 0 100 40" preserveAspectRatio="none">
      ${s.map((i,a)=>l`<rect key=${i.name} class="column" x=${a*t+t*.12} width=${t*.76} y=${40-40*i.value/p} height=${40*i.value/p} />`)}</svg>
      <span class="ends"><span>${s[0]?.name}</span><span>${s.at(-1)?.name}</span></span></div>
    <${m} title=${n} head=${[o,n]} rows=${s.map(i=>[i.name,e(i.value)])} /></figure>`}export{r as a,f as b,v as c,k as d};
