import{d}from"./chunk-26IF3B54.js";import{K as p,T as o,U as r,V as n,W as a,a as t,da as c,i as u,ma as m}from"./chunk-ZLDV3JS2.js";function s({id:e,title:l,name:i,example:g}){return t`<p><label for=${e}>${l}</label><input id=${e} type="text" autocapitalize="none" autocomplete="off" spellcheck=${!1} placeholder=${g}
    value=${a.value[i]} onInput=${f=>a.value={...a.value,[i]:f.currentTarget.value}} /></p>`}function v(){let e=Object.values(a.value).some(Boolean);return t`<details class="more" open=${e}><summary>Settings: command, folder, variables</summary>
    <div class="settings">
      <${s} id="entrypoint" title="Program" name="entrypoint" example="e.g. /usr/bin/samtools" />
      <${s} id="cmd" title="Its arguments" name="cmd" example="e.g. view --help" />
      <${s} id="folder" title="Folder it starts in" name="workingDir" example="e.g. /data" />
      <p class="wide"><label for="env">Variables, one on each line</label><textarea id="env" rows="3" spellcheck=${!1} autocapitalize="none" placeholder="e.g. LC_ALL=C.UTF-8" value=${a.value.env}
        onInput=${l=>a.value={...a.value,env:l.currentTarget.value}}></textarea></p>
    </div>
    <p class="note">Empty fields keep the image's values. Anyone who can pull the image can read its variables.</p>
  </details>`}function h(){let[e,l]=u("/");return t`<details class="more" open=${!!o.value}><summary>Files of your own</summary>
    <p><label for="into">Folder in the image</label><input id="into" type="text" autocapitalize="none" autocomplete="off" spellcheck=${!1} value=${e}
      disabled=${!!o.value} onInput=${i=>l(i.currentTarget.value)} /></p>
    <${d} title="Files of your own" note="Drop files here, or" of=${o} into=${e} />
  </details>`}function $(){return t`<details class="more" open=${n.value.length>0}><summary>Layers of other images</summary>
    <label for="includes">Images, one on each line; their layers are added on top, unchanged</label>
    <textarea id="includes" rows="2" spellcheck=${!1} autocapitalize="none" placeholder="e.g. docker.io/library/busybox:1.37" value=${n.value.join(`
`)}
      onChange=${e=>n.value=e.currentTarget.value.split(/\s+/).filter(Boolean)}></textarea>
  </details>`}function F(){return t`<div class="search existing"><label for="image">Image</label>
      <input id="image" type="text" autocapitalize="none" autocomplete="off" spellcheck=${!1} placeholder="e.g. docker.io/library/python:3.13-slim" value=${r.value}
        aria-describedby="image-note" onInput=${e=>r.value=e.currentTarget.value} />
      <p class="note" id="image-note">Any image that this service can read, or a name that it issued. You get a name for the image with your additions.</p></div>
    <${m} title="Add packages" /><${c} />
    ${p.value.length>0&&t`<p class="note">They are installed in /opt/conda; the image's files stay.</p>`}
    <${v} /><${h} /><${$} />`}export{F as View};
