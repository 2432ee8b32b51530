import{a as t}from"./chunk-ZLDV3JS2.js";function x({title:e,head:n,rows:s}){return t`<details class="behind"><summary>As a table<span class="unseen">: ${e}</span></summary>
    <div class="scroll" tabindex="0" role="region" aria-label=${e}><table>
      <thead><tr>${n.map((o,l)=>t`<th scope="col" key=${o} class=${l?"number":""}>${o}</th>`)}</tr></thead>
      <tbody>${s.map(o=>t`<tr key=${o[0]}>${o.map((l,p)=>t`<td class=${p?"number":""}>${l}</td>`)}</tr>`)}</tbody></table></div></details>`}function g(e){if(!(e>0))return 1;let n=10**Math.floor(Math.log10(e));return([1,2,3,4,5,6,8].find(s=>s*n>=e*.999)??10)*n}function v(e){let n=Math.round(e/10**Math.floor(Math.log10(e)));return{1:4,2:4,3:3,4:4,5:5,6:3,8:4,10:4}[n]??4}function h({title:e,note:n}){return t`<figcaption><strong>${e}</strong> <span class="note">${n}</span></figcaption>`}var f=({title:e,note:n,empty:s})=>t`<figure class="plot"><${h} title=${e} note=${n} /><p class="empty">${s}</p></figure>`;function A({title:e,note:n,rows:s,names:o,say:l,end:p=g,parts:c=v}){if(!s.length)return t`<${f} title=${e} note=${n} empty="No task has reported this." />`;let $=p(Math.max(...s.map(a=>Math.max(a.max,a.asked??0)))),i=a=>Math.min(100,100*a/$),r=s.some(a=>a.asked),u=c($),m=Array.from({length:u+1},(a,d)=>d/u);return t`<figure class="plot"><${h} title=${e} note=${n} />
    <div class="spreads" aria-hidden="true">${s.map(a=>t`<span class="name" title=${a.name} key=${`n-${a.name}`}>${o.get(a.name)??a.name}</span>
      <svg viewBox="0 0 100 10" preserveAspectRatio="none" key=${a.name}>
        ${m.map(d=>t`<line class="axis" x1=${100*d} x2=${100*d} y1="-5" y2="15" />`)}
        <line class="range" x1=${i(a.min)} x2=${i(a.max)} y1="5" y2="5" /><line class="range" x1=${i(a.min)} x2=${i(a.min)} y1="3" y2="7" /><line class="range" x1=${i(a.max)} x2=${i(a.max)} y1="3" y2="7" />
        <rect class="half" x=${i(a.q1)} width=${Math.max(i(a.q3)-i(a.q1),.3)} y="1" height="8" />
        <line class="median" x1=${i(a.median)} x2=${i(a.median)} y1="1" y2="9" />
        ${a.asked?t`<line class="asked" x1=${Math.min(99.7,i(a.asked))} x2=${Math.min(99.7,i(a.asked))} y1="0" y2="10" />`:null}</svg>
      <span class="number">${l(a.median)}</span>`)}
      <span></span><span class="ticks">${m.map(a=>t`<span key=${a} style=${{left:`${100*a}%`}}>${a?l($*a):"0"}</span>`)}</span><span class="number note">median</span></div>
    <${x} title=${e} head=${["Process","Tasks","Least","Median","Most",...r?["Requested"]:[]]}
      rows=${s.map(a=>[a.name,a.count,l(a.min),l(a.median),l(a.max),...r?[a.asked?l(a.asked):""]:[]])} /></figure>`}var y=({top:e,say:n})=>t`<span class="heights"><span>${n(e)}</span><span>${n(e/2)}</span><span>${n(0)}</span></span>`,k=[0,20,40].map(e=>t`<line class="axis" x1="0" x2="100" y1=${e} y2=${e} />`);function B({title:e,note:n,points:s,say:o,when:l}){if(s.length<2)return t`<${f} title=${e} note=${n} empty="No task has begun." />`;let p=s[0][0],c=s[s.length-1][0]-p||1,$=2*g(Math.max(...s.map(([,m])=>m))/2),i="M0 40",r=0;for(let[m,a]of s){let d=(100*(m-p)/c).toFixed(2);i+=`L${d} ${(40-40*r/$).toFixed(2)}L${d} ${(40-40*a/$).toFixed(2)}`,r=a}let u=Math.ceil(s.length/100);return t`<figure class="plot"><${h} title=${e} note=${n} />
    <div class="course" aria-hidden="true"><${y} top=${$} say=${o} /><svg viewBox="0 0 100 40" preserveAspectRatio="none">${k}<path class="area" d=${`${i}L100 40Z`} /></svg>
      <span class="ends"><span>${l(p)}</span><span>${l(p+c/2)}</span><span>${l(p+c)}</span></span></div>
    <${x} title=${e} head=${["Time",e]} rows=${s.filter((m,a)=>a%u===0).map(([m,a])=>[l(m),o(a)])} /></figure>`}function b({title:e,note:n,bars:s,say:o,what:l}){if(!s.some($=>$.value>0))return t`<${f} title=${e} note=${n} empty="Nothing yet." />`;let p=g(Math.max(...s.map($=>$.value))),c=100/s.length;return t`<figure class="plot"><${h} title=${e} note=${n} />
    <div class="course" aria-hidden="true"><span class="upto">${o(p)}</span><svg viewBox="0 0 100 40" preserveAspectRatio="none">
      ${s.map(($,i)=>t`<rect key=${$.name} class="column" x=${i*c+c*.12} width=${c*.76} y=${40-40*$.value/p} height=${40*$.value/p} />`)}</svg>
      <span class="ends"><span>${s[0]?.name}</span><span>${s.at(-1)?.name}</span></span></div>
    <${x} title=${e} head=${[l,e]} rows=${s.map($=>[$.name,o($.value)])} /></figure>`}export{g as a,A as b,B as c,b as d};
