import{a as C}from"./chunk-UFSA7KWL.js";import{a as E,b as L,c as U}from"./chunk-BJLQVMTP.js";import{b as x}from"./chunk-QLZOINKV.js";import{a as P}from"./chunk-4DJU6FOW.js";import{a as v,c as T,d as S,e as I}from"./chunk-V2GSBWQ2.js";import{a,e as N,i as p,ia as k,r as b,t as u,w as y}from"./chunk-ZLDV3JS2.js";var D=50;function j(e,n){return n?{at:`api/orgs/${e}/workspaces/${n}/participants`,roles:["owner","admin","maintain","launch","connect","view"],add:t=>({userNameOrEmail:t}),list:"participants",id:"participantId",role:"wspRole"}:{at:`api/orgs/${e}/members`,roles:["owner","member"],add:t=>({user:t}),list:"members",id:"memberId",role:"role"}}var G={owner:"everything",admin:"manages people",maintain:"manages logins",launch:"runs and uses logins",connect:"looks at runs",view:"looks at runs",member:"is in the organisation"};function O({org:e,workspace:n,may:t}){let s=j(e,n),[o,c]=p(0),[i,l]=p(""),[$,h]=p(""),d=v(r=>u("GET",`${s.at}?max=${D}&offset=${o}`,{signal:r}),[o,s.at]),f=(d.value?.[s.list]??[]).map(r=>({id:r[s.id],userName:r.userName,email:r.email,role:r[s.role],expires:r.invitation?.expires})),g=async r=>{h("");try{await r()}catch(m){h(y(m))}d.again()};return a`<section><h2>${n?"Participants":"Members"}</h2>
    <${T} of=${d} what="The people here" />
    ${d.value&&!f.length&&a`<p class="empty">Only the owners of the organisation.</p>`}
    ${f.length>0&&a`<ul class="rows">${f.map(r=>a`<li key=${r.id}><div class="what"><strong>${r.userName}</strong>
      <p class="note">${r.expires?`invited until ${N(r.expires)}, waits for the first sign-in`:r.email}</p></div>
      ${t?a`<span class="aside"><select aria-label=${`Role of ${r.userName}`} value=${r.role}
          onChange=${m=>g(()=>u("PUT",`${s.at}/${r.id}/role`,{body:{role:m.currentTarget.value}}))}>
          ${s.roles.map(m=>a`<option key=${m} value=${m}>${m}: ${G[m]}</option>`)}</select>
        <${I} label=${r.expires?"Revoke":"Remove"} what=${r.expires?`the invitation of ${r.email}`:r.userName} act=${async()=>{await u("DELETE",`${s.at}/${r.id}`),d.again()}} /></span>`:a`<span class="tag">${r.role}</span>`}</li>`)}</ul>
      <${S} what="people" offset=${o} most=${D} total=${d.value.totalSize??0} go=${c} />`}
    ${$&&a`<p class="note problem" role="alert"><${k} text=${$} /></p>`}
    ${t&&a`<form class="fields row" onSubmit=${r=>{r.preventDefault(),g(async()=>{await u("PUT",`${s.at}/add`,{body:s.add(i.trim())}),l("")})}}><p><label for="who">Add a user, or invite an address</label><input id="who" type="text" autocomplete="off" autocapitalize="none" spellcheck=${!1} placeholder="User name or e-mail address"
        value=${i} onInput=${r=>l(r.currentTarget.value)} /></p>
      <p><button class="button second" disabled=${!i.trim()}>Add</button></p></form>`}</section>`}var V={launch:"reports runs and uses logins",connect:"no logins, reports no runs",view:"no logins, reports no runs"},W=Object.entries(V).map(([e,n])=>[e,`${e}: ${n}`]);function z({id:e,label:n,hint:t,choice:s,choices:o,more:c,act:i}){let[l,$]=p(""),[h,d]=p(o[0][0]),[f,g]=p(""),[r,m]=p("");return a`<form class="fields row" onSubmit=${async w=>{w.preventDefault(),m("");try{await i(l.trim(),h,f),$(""),g("")}catch(R){m(y(R))}}}><p><label for=${e}>${n}</label><input id=${e} type="text" maxlength="50" autocomplete="off" autocapitalize="none" spellcheck=${!1} placeholder=${t} value=${l} required
      onInput=${w=>$(w.currentTarget.value)} /></p>
    <p><label for=${`${e}-choice`}>${s}</label><select id=${`${e}-choice`} value=${h} onChange=${w=>d(w.currentTarget.value)}>
      ${o.map(([w,R])=>a`<option key=${w} value=${w}>${R}</option>`)}</select></p>
    ${c&&a`<p><label for=${`${e}-more`}>${c.label}</label><input id=${`${e}-more`} type="text" autocomplete="off" ...${c.attributes} placeholder=${c.hint} value=${f}
      onInput=${w=>g(w.currentTarget.value)} /></p>`}
    <p><button class="button second" disabled=${!l.trim()}>Create</button></p>
    ${r&&a`<p class="note problem" role="alert"><${k} text=${r} /></p>`}</form>`}function Y({robot:e,at:n,query:t}){let s=v(l=>u("GET",`${n}/tokens${t}`,{signal:l}),[n]),[o,c]=p(void 0),i=s.value?.tokens??[];return a`<${T} of=${s} what="The tokens" />
    ${i.length>0&&a`<ul class="rows">${i.map(l=>a`<${U} key=${l.id} one=${l} name=${l.name} label="Revoke" path=${`${n}/tokens/${l.id}${t}`} again=${s.again} />`)}</ul>`}
    ${o&&a`<section class="result" role="status"><h3>The token ${o.name}</h3><${x} large text=${o.secret} what="the token" />
      <p class="note">Copy it now: it is shown only once.</p></section>`}
    <${z} id=${`token-${e.id}`} label=${`New token of ${e.name}`} hint="cluster" choice="May be used for"
      choices=${E.slice(1).map(([l,$])=>[l.join(),$])} more=${{label:"Only for repositories",hint:"all, or ghcr.io/lab/*",attributes:{autocapitalize:"none",spellcheck:!1}}}
      act=${async(l,$,h)=>{let{accessKey:d}=await u("POST",`${n}/tokens${t}`,{body:{name:l,scopes:$.split(","),repositories:L(h)}});c({name:l,secret:d}),s.again()}} />`}function B({robot:e,at:n,query:t,again:s}){let[o,c]=p(void 0),[i,l]=p(void 0),[$,h]=p(""),d=o??e.role,f=i??e.description,g={};return d!==e.role&&(g.role=d),f.trim()!==e.description&&(g.description=f),a`<form class="fields row change" onSubmit=${async r=>{r.preventDefault(),h("");try{await u("PUT",n+t,{body:g}),c(void 0),l(void 0),s()}catch(m){h(y(m))}}}><p><label for=${`role-${e.id}`}>Role</label><select id=${`role-${e.id}`} value=${d} onChange=${r=>c(r.currentTarget.value)}>
      ${W.map(([r,m])=>a`<option key=${r} value=${r}>${m}</option>`)}</select></p>
    <p><label for=${`about-${e.id}`}>Description</label><input id=${`about-${e.id}`} type="text" maxlength="1000" autocomplete="off" value=${f}
      onInput=${r=>l(r.currentTarget.value)} /></p>
    <p><button class="button second" disabled=${Object.keys(g).length===0}>Save</button></p>
    <p class="note">The scopes of a token decide what else it may do, such as requesting images. Revoke the token to stop it.</p>
    ${$&&a`<p class="note problem" role="alert"><${k} text=${$} /></p>`}</form>`}function H({robot:e,at:n,query:t,again:s}){let[o,c]=p(!1);return a`<li><div class="what"><strong>${e.name}</strong>
      <p class="note">${e.role} · ${e.description&&`${e.description} · `}created by ${e.createdBy} · ${e.lastUsed?`last used ${N(e.lastUsed)}`:"never used"}</p></div>
    <${I} label="Delete" what=${e.name} act=${async()=>{await u("DELETE",n+t),s()}} />
    <details><summary>Change<span class="unseen"> ${e.name}</span></summary><${B} robot=${e} at=${n} query=${t} again=${s} /></details>
    <details onToggle=${i=>c(i.currentTarget.open)}><summary class="tokens">Tokens<span class="unseen"> of ${e.name}</span></summary>
      ${o&&a`<${Y} robot=${e} at=${n} query=${t} />`}</details></li>`}function M({org:e,workspace:n}){let t=`api/orgs/${e}/robots`,s=n?`?workspaceId=${n}`:"",o=v(i=>u("GET",t+s,{signal:i}),[t,s]),c=o.value?.robots??[];return a`<section id="robots"><h2>Robots</h2>
    <p class="note">Accounts without a person, for CI and clusters. They act with tokens only, ${n?"in this workspace":"in all workspaces of the organisation"}.</p>
    <${T} of=${o} what="The robots" />
    ${c.length>0&&a`<ul class="rows">${c.map(i=>a`<${H} key=${i.id} robot=${i} at=${`${t}/${i.id}`} query=${s} again=${o.again} />`)}</ul>`}
    <${z} id="robot" label="New robot" hint="ci" choice="Role" choices=${W} more=${{label:"Description",hint:"Pulls images for the cluster",attributes:{maxlength:1e3}}}
      act=${async(i,l,$)=>{await u("POST",t+s,{body:{name:i,role:l,description:$}}),o.again()}} /></section>`}function A({id:e,title:n,label:t,act:s}){let[o,c]=p(""),[i,l]=p("");return a`<form class="fields row" onSubmit=${async $=>{$.preventDefault(),l("");try{await s(o.trim()),c("")}catch(h){l(y(h))}}}><p><label for=${e}>${n}</label><input id=${e} type="text" autocomplete="off" autocapitalize="none" spellcheck=${!1} value=${o} required
      onInput=${$=>c($.currentTarget.value)} /></p>
    <p><button class="button second" disabled=${!o.trim()}>${t}</button></p>
    ${i&&a`<p class="note problem" role="alert"><${k} text=${i} /></p>`}</form>`}var q=e=>`${new URL("view/workspaces",b).href}?${e}`;function K({org:e,spaces:n,again:t}){let s=e.roles.includes("owner");return a`<section><div class="head"><h2>${e.orgName}</h2><a href=${q(`org=${e.orgId}`)}>Members<span class="unseen"> of ${e.orgName}</span></a></div>
    ${n.length?a`<ul class="rows">${n.map(o=>a`<li key=${o.workspaceId}><div class="what"><a href=${q(`org=${o.orgId}&workspace=${o.workspaceId}`)}>${o.workspaceName}</a>
      <p class="note">${o.visibility==="SHARED"?"seen by all members":"private"}${o.roles.length?` · you: ${o.roles.join(", ")}`:""}</p></div>
      <span class="aside"><a href=${`${new URL("view/runs",b).href}?workspace=${o.workspaceId}`}>Runs<span class="unseen"> of ${o.workspaceName}</span></a>
        <a href=${`${new URL("view/logins",b).href}?workspace=${o.workspaceId}`}>Logins<span class="unseen"> of ${o.workspaceName}</span></a>
        <a href=${`${new URL("view/webhooks",b).href}?workspace=${o.workspaceId}`}>Webhooks<span class="unseen"> of ${o.workspaceName}</span></a></span></li>`)}</ul>`:a`<p class="empty">No workspace yet.</p>`}
    ${s&&a`<${A} id=${`workspace-${e.orgId}`} title="New workspace" label="Create" act=${async o=>{await u("POST",`api/orgs/${e.orgId}/workspaces`,{body:{workspace:{name:o,fullName:o,visibility:"PRIVATE"}}}),t()}} />`}</section>`}function F({all:e,org:n,workspace:t}){let s=e.find(i=>i.orgId===n&&(i.workspaceId??0)===t);if(!s)return a`<h1>There is no such workspace</h1><p class="lead">Or you have no access to it. Its owners can add you.</p>`;let o=e.filter(i=>i.orgId===n&&(!i.workspaceId||i.workspaceId===t)).flatMap(i=>i.roles),c=o.some(i=>i==="owner"||t&&i==="admin");return a`<p class="note back"><a href=${new URL("view/workspaces",b).href}>Workspaces</a></p>
    <h1>${t?a`${s.orgName} / ${s.workspaceName}`:s.orgName}</h1>
    <${O} org=${n} workspace=${t} may=${c} />
    ${c&&a`<${M} org=${n} workspace=${t} />
      <${C} query=${t?`workspaceId=${t}`:`orgId=${n}`} by=${t?["user","day"]:["user","workspace","day"]} />`}
    ${o.includes("owner")&&a`<section><h2>Remove</h2><p class="note">${t?"Possible once no runs and logins are in it.":"Possible once no workspaces are in it."}</p>
      <${I} label="Remove" what=${s.workspaceName??s.orgName} act=${async()=>{await u("DELETE",`api/orgs/${n}${t?`/workspaces/${t}`:""}`),location.assign(new URL("view/workspaces",b))}} /></section>`}`}function we(){let e=v(P,[]),n=new URLSearchParams(location.search),t=e.value??[];if(n.has("org")&&e.value)return a`<${F} all=${t} org=${Number(n.get("org"))} workspace=${Number(n.get("workspace"))} />`;let s=t.filter(o=>!o.workspaceId);return a`<h1>Workspaces</h1>
    <p class="lead">The participants of a workspace share its runs and logins. Each workspace belongs to an organisation.</p>
    <${T} of=${e} what="Your workspaces" />
    ${e.value&&!s.length&&a`<p class="empty">You are in no organisation. Create one, or ask to be added to an existing one.</p>`}
    ${s.map(o=>a`<${K} key=${o.orgId} org=${o} spaces=${t.filter(c=>c.orgId===o.orgId&&c.workspaceId)} again=${e.again} />`)}
    ${e.value&&a`<section><h2>New organisation</h2><${A} id="organisation" title="Name" label="Create" act=${async o=>{await u("POST","api/orgs",{body:{organization:{name:o,fullName:o}}}),e.again()}} /></section>`}`}export{we as View};
