import{b as E}from"./chunk-QLZOINKV.js";import{b as m,c as D,d as C}from"./chunk-4DJU6FOW.js";import{a as y,b as S,c as v,d as x,e as T}from"./chunk-V2GSBWQ2.js";import{a as s,e as h,i as u,ia as g,t as d,w}from"./chunk-ZLDV3JS2.js";var N=[[["*"],"all events"],[["build.*"],"builds: started, succeeded, failed, verified"],[["mirror.*"],"mirrors: started, succeeded, failed"],[["build.failed","build.verification_failed","mirror.failed","container.failed"],"failures"],[["container.*"],"containers: ready, failed, patched"]],P=20,k=e=>e.status==="DELIVERED"?"delivered":e.status==="FAILED"?"failed":e.nextAttempt?`next attempt ${h(e.nextAttempt)}`:"waits";function A({hook:e,space:o}){let[i,r]=u(0),[c,p]=u(""),a=`api/webhooks/${e.id}`,l=y(t=>d("GET",`${a}/deliveries?max=${P}&offset=${i}${m(o,"&")}`,{signal:t}),[a,i]),n=l.value?.deliveries??[];S(l.again,n.some(t=>t.status==="PENDING")?3e3:0);let $=async t=>{p("");try{await d("POST",`${a}/${t}${m(o)}`),l.again()}catch(b){p(w(b))}};return s`<p><button type="button" class="small" disabled=${e.disabled} onClick=${()=>$("test")}>Send a test</button></p>
    ${c&&s`<p class="note problem" role="alert"><${g} text=${c} /></p>`}
    <${v} of=${l} what="The messages" />
    ${l.value&&!n.length&&s`<p class="empty">No messages within the last 7 days.</p>`}
    ${n.length>0&&s`<ul class="rows">${n.map(t=>s`<li key=${t.id}><div class="what"><strong>${t.type}</strong>
      <p class="note">${[h(t.dateCreated),t.type.startsWith("webhook.")?"":t.subject,k(t),t.attempts>1?`${t.attempts} attempts`:"",t.problem].filter(Boolean).join(" · ")}</p></div>
      ${t.status!=="PENDING"&&s`<button type="button" class="small" disabled=${e.disabled} onClick=${()=>$(`deliveries/${t.id}/repeat`)}>Send again<span class="unseen"> ${t.type}</span></button>`}</li>`)}</ul>`}
    <${x} offset=${i} most=${P} total=${l.value?.totalSize??0} go=${r} what="messages" />`}function I({hook:e,space:o,again:i,made:r}){let[c,p]=u(!1),[a,l]=u(""),n=`api/webhooks/${e.id}${m(o)}`,$=async b=>{l("");try{let{secret:f}=await d("PUT",n,{body:b});f&&r(e.url,f),i()}catch(f){l(w(f))}},t=e.disabled?"disabled":e.failingSince?`failing since ${h(e.failingSince)}`:"";return s`<li><div class="what"><strong>${e.url}</strong>
      <p class="note">${[e.events.join(", ").replace(/^\*$/,"all events"),e.createdBy&&`created by ${e.createdBy}`,t].filter(Boolean).join(" · ")}</p>
      ${e.disabledReason&&s`<p class="note problem">${e.disabledReason}</p>`}
      ${a&&s`<p class="note problem" role="alert"><${g} text=${a} /></p>`}</div>
    <span class="aside"><button type="button" class="small" onClick=${()=>$({disabled:!e.disabled})}>${e.disabled?"Enable":"Disable"}<span class="unseen"> ${e.url}</span></button>
      <${T} label="New secret" what=${`for ${e.url}`} act=${()=>$({newSecret:!0})} />
      <${T} label="Delete" what=${e.url} act=${async()=>{await d("DELETE",n),i()}} /></span>
    <details onToggle=${b=>p(b.currentTarget.open)}><summary>Messages<span class="unseen"> to ${e.url}</span></summary>
      ${c&&s`<${A} hook=${e} space=${o} />`}</details></li>`}function L({space:e,made:o}){let[i,r]=u(""),[c,p]=u(0),[a,l]=u("");return s`<form class="fields row" onSubmit=${async n=>{n.preventDefault(),l("");try{let{webhook:$,secret:t}=await d("POST",`api/webhooks${m(e)}`,{body:{url:i.trim(),events:N[c][0]}});r(""),o($.url,t)}catch($){l(w($))}}}><p><label for="url">URL</label><input id="url" type="url" maxlength="2000" autocomplete="off" placeholder="https://hooks.example.org/slipway" value=${i} required
      onInput=${n=>r(n.currentTarget.value)} /></p>
    <p><label for="events">Events</label><select id="events" value=${c} onChange=${n=>p(Number(n.currentTarget.value))}>
      ${N.map(([,n],$)=>s`<option key=${n} value=${$}>${n}</option>`)}</select></p>
    <p><button class="button" disabled=${!i.trim()}>Create</button></p>
    ${a&&s`<p class="note problem" role="alert"><${g} text=${a} /></p>`}</form>`}function j({space:e}){let[o,i]=u(void 0),r=y(a=>d("GET",`api/webhooks${m(e)}`,{signal:a}),[e]),c=r.value?.webhooks??[],p=(a,l)=>{i({url:a,secret:l}),r.again()};return s`<section id="webhooks"><h2>Webhooks</h2><${v} of=${r} what="The webhooks" />
      ${r.value&&!c.length&&s`<p class="empty">None yet.</p>`}
      ${c.length>0&&s`<ul class="rows">${c.map(a=>s`<${I} key=${a.id} hook=${a} space=${e} again=${r.again} made=${p} />`)}</ul>`}
      ${o&&s`<section class="result" role="status"><h3>The secret for ${o.url}</h3><${E} large text=${o.secret} what="the secret" />
        <p class="note">The receiver verifies messages with it. Copy it now: it is shown only once.</p></section>`}</section>
    <section><h2>New webhook</h2><${L} space=${e} made=${p} /></section>`}function q(){let[e,o]=D();return s`<h1>Webhooks</h1>
    <p class="lead">Addresses to which the events of your builds and containers are sent, as signed messages.</p>
    <${C} id=${e} choose=${o} />
    <${j} key=${e} space=${e} />`}export{q as View};
