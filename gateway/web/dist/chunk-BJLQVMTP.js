import{b as I}from"./chunk-QLZOINKV.js";import{a as N}from"./chunk-4DJU6FOW.js";import{a as h,c as T,e as C}from"./chunk-V2GSBWQ2.js";import{H as v,a as s,e as m,i,ia as x,p as b,t as $,w as y}from"./chunk-ZLDV3JS2.js";var D=1440*60*1e3,j=[[30,"30 days"],[90,"90 days"],[365,"a year"],[0,"until it is revoked"]],q=[[[],"everything you can do"],[["pull","request"],"requests without builds"],[["pull","request","build"],"requests and builds"],[["pull","request","build","freeze","runs"],"images and runs"],[["runs"],"runs"]],O=e=>e.split(/[\s,]+/).filter(Boolean);function W({made:e}){let[r,a]=i(""),[l,p]=i(90),[c,o]=i(0),[u,d]=i(0),[f,A]=i(""),w=(h(N,[]).value??[]).filter(t=>t.workspaceId),[g,k]=i("");return s`<form class="fields row" onSubmit=${async t=>{t.preventDefault(),k("");try{let n=l?new Date(Date.now()+l*D).toISOString():"never",{accessKey:E}=await $("POST","api/tokens",{body:{name:r.trim(),expires:n,scopes:q[c][0],workspaceId:u,repositories:O(f)}});e(r.trim(),E),a("")}catch(n){k(y(n))}}}>
    <p><label for="name">Name</label><input id="name" type="text" maxlength="50" autocomplete="off" placeholder="laptop" value=${r} required
      onInput=${t=>a(t.currentTarget.value)} /></p>
    <p><label for="life">Works for</label><select id="life" value=${l} onChange=${t=>p(Number(t.currentTarget.value))}>
      ${j.map(([t,n])=>s`<option key=${t} value=${t}>${n}</option>`)}</select></p>
    <p><label for="use">May be used for</label><select id="use" value=${c} onChange=${t=>o(Number(t.currentTarget.value))}>
      ${q.map(([,t],n)=>s`<option key=${n} value=${n}>${t}</option>`)}</select></p>
    ${w.length>0&&s`<p><label for="within">Works in</label><select id="within" value=${u} onChange=${t=>d(Number(t.currentTarget.value))}>
      <option value="0">all workspaces</option>
      ${w.map(t=>s`<option key=${t.workspaceId} value=${t.workspaceId}>${t.orgName} / ${t.workspaceName}</option>`)}</select></p>`}
    <p><label for="repositories">Only for repositories</label><input id="repositories" type="text" autocomplete="off" autocapitalize="none" spellcheck=${!1} placeholder="all, or ghcr.io/lab/*" value=${f}
      onInput=${t=>A(t.currentTarget.value)} /></p>
    <p><button class="button" disabled=${!r.trim()}>Create</button></p>
    ${g&&s`<p class="note problem" role="alert"><${x} text=${g} /></p>`}</form>`}function S({one:e,name:r,here:a,label:l,path:p=`api/tokens/${e.id}`,again:c}){let o="lastAddress"in e&&e.lastAddress?` from ${e.lastAddress}`:"",u=e.lastUsed?`last used ${m(e.lastUsed)}${o}`:"never used",d="scopes"in e&&(e.scopes.length>0||e.workspaceId||e.repositories?.length>0)&&`only ${[e.scopes.join(", "),e.workspaceId&&`in the workspace ${e.workspaceId}`,e.repositories?.length>0&&`for ${e.repositories.join(", ")}`].filter(Boolean).join(" ")} · `;return s`<li><div class="what"><strong>${r}</strong>${a&&s` <span class="tag">this page</span>`}
      <p class="note">${d}${u} · ${e.expires?`until ${m(e.expires)}`:"until it is revoked"}</p></div>
    <${C} label=${l} what=${r} act=${async()=>{await $("DELETE",p),a?await v():c()}} /></li>`}function V(){let[e,r]=i(void 0),a=h(o=>$("GET","api/tokens",{signal:o}),[]),{tokens:l,sessions:p}=a.value??{tokens:[],sessions:[]},c=b();return s`<h1>Access tokens</h1>
    <p class="lead">A token lets a program act as you: Nextflow, the command line, or a script.</p>
    <${W} made=${(o,u)=>{r({name:o,secret:u}),a.again()}} />
    ${e&&s`<section class="result" role="status"><h2>The token ${e.name}</h2><${I} large text=${e.secret} what="the token" />
      <p class="note">Copy it now: it is shown only once.</p></section>`}
    <section><h2>Your tokens</h2><${T} of=${a} what="Your tokens" />
      ${l.length>0&&s`<ul class="rows">${l.map(o=>s`<${S} key=${o.id} one=${o} name=${o.name} here=${o.id===c} label="Revoke" again=${a.again} />`)}</ul>`}
      ${a.value&&!l.length&&s`<p class="empty">You have none.</p>`}</section>
    ${p.length>0&&s`<section><h2>Programs that are signed in</h2>
      <ul class="rows">${p.map(o=>s`<${S} key=${o.id} one=${o} name=${o.clientId} label="End" again=${a.again} />`)}</ul></section>`}`}export{q as a,O as b,S as c,V as d};
