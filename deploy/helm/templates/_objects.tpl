{{/*
Write every object of the release.

Each folder of files/ is a link to a folder of deploy/, so that kustomize and this chart read the same
files: kustomization.yaml says which objects, images and ConfigMaps there are. A release is kept in its
namespace, so that the namespace has to be there before the chart is read.
*/}}
{{- define "kubextend.objects" -}}
{{- include "kubextend.refuse" . }}
{{- $more := list }}
{{- if .Values.bind }}{{ $more = append $more "rbac-bind.yaml" }}{{ end }}
{{- if .Values.networkPolicy }}{{ $more = append $more "network-policy.yaml" }}{{ end }}
{{- if .Values.leader }}
{{- $leader := include "kubextend.file" (list . "service/leader/kustomization.yaml") | fromYaml }}
{{- range $leader.resources }}{{ $more = append $more (printf "leader/%s" .) }}{{ end }}
{{- end }}
{{- include "kubextend.folder" (dict "root" . "name" .Values.install "more" $more) }}
{{- range $folder, $wanted := dict "queue" .Values.queue.enabled "pod-size" .Values.podSize "monitoring" .Values.monitoring }}
{{- if $wanted }}{{ include "kubextend.folder" (dict "root" $ "name" $folder "more" list) }}{{ end }}
{{- end }}
{{- with .Values.admission }}
---
{{ . }}
{{- end }}
{{- end }}

{{/* Refuse values that fit each other in the schema and not in the cluster. */}}
{{- define "kubextend.refuse" -}}
{{- $files := .Values.configuration }}
{{- if and (eq .Values.install "second-scheduler") (ne (empty $files.kubextend) (empty (index $files "kube-scheduler"))) }}
{{- fail "configuration.kubextend and configuration.kube-scheduler belong together: kubextend scheduler-config writes the second from the first" }}
{{- end }}
{{- if and (ne .Values.install "second-scheduler") (index $files "kube-scheduler") }}
{{- fail (printf "configuration.kube-scheduler has no place with install %s: its kube-scheduler is none of this chart" .Values.install) }}
{{- end }}
{{- with $files.kubextend }}
{{- if ne (fromYaml . | dig "kind" "") "ExtenderConfiguration" }}
{{- fail "configuration.kubextend is no ExtenderConfiguration: give the file with --set-file" }}
{{- end }}
{{- end }}
{{- if ne .Values.leader (fromYaml $files.kubextend | dig "server" dict | default dict | dig "lease" nil | kindIs "map") }}
{{- fail "leader: true and `lease` in the section server of configuration.kubextend belong together" }}
{{- end }}
{{- end }}

{{/*
Write the objects of one folder, with the values in their places.

Takes: root, the root context; name, the folder; more, files beyond the resources of kustomization.yaml.
*/}}
{{- define "kubextend.folder" -}}
{{- $kustomization := include "kubextend.file" (list .root (printf "%s/kustomization.yaml" .name)) | fromYaml }}
{{- $images := dict }}
{{- range $kustomization.images }}
{{- $_ := set $images .name (get $.root.Values.images .name | default (printf "%s:%s" .newName .newTag)) }}
{{- end }}
{{- $maps := dict }}
{{- range $generator := $kustomization.configMapGenerator }}
{{- $data := dict }}
{{- range .files }}
{{- $own := get $.root.Values.configuration (trimSuffix ".yaml" .) }}
{{- $_ := set $data . ($own | default (include "kubextend.file" (list $.root (printf "%s/%s" $.name .)))) }}
{{- end }}
{{- $metadata := dict "name" .name "namespace" $.root.Release.Namespace }}
{{- with .options }}
{{- $_ := set $metadata "labels" .labels }}
{{- else }}
{{- /* The name that kustomize gives: another content is another object, and thereby a rollout. As after
kubectl apply, the object of the content before stays, for the pods that still need it. */}}
{{- $hash := dict "kind" "ConfigMap" "name" "" "data" $data | toJson | sha256sum | trunc 10 }}
{{- range $from, $to := dict "0" "g" "1" "h" "3" "k" "a" "m" "e" "t" }}{{ $hash = replace $from $to $hash }}{{ end }}
{{- $_ := set $metadata "name" (printf "%s-%s" .name $hash) }}
{{- $_ := set $metadata "annotations" (dict "helm.sh/resource-policy" "keep") }}
{{- $_ := set $maps .name $metadata.name }}
{{- end }}
---
{{ dict "apiVersion" "v1" "kind" "ConfigMap" "metadata" $metadata "data" $data | toYaml }}
{{- end }}
{{- range concat $kustomization.resources .more }}
{{- range include "kubextend.file" (list $.root (printf "%s/%s" $.name .)) | splitList "\n---\n" }}
{{- $object := fromYaml . }}
{{- if eq $object.kind "Deployment" }}
{{- include "kubextend.deployment" (dict "values" $.root.Values "images" $images "maps" $maps "spec" $object.spec) }}
{{- else if and $.root.Values.leader (eq $object.kind "Service") (eq $object.metadata.name "kubextend") }}
{{- $_ := set $object.spec.selector "kubextend.dev/leader" "true" }}
{{- end }}
{{- if ne $object.kind "Namespace" }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Put the values, the images and the names of the ConfigMaps into the spec of a Deployment. */}}
{{- define "kubextend.deployment" -}}
{{- $pod := .spec.template.spec }}
{{- $_ := set .spec "replicas" (int .values.replicas) }}
{{- range $container := concat (get $pod "initContainers" | default list) $pod.containers }}
{{- $_ := set $container "image" (get $.images .name) }}
{{- if and $.values.withAdmission (eq .name "kubextend") }}
{{- $_ := set $container "args" (append $container.args "--with-admission") }}
{{- end }}
{{- with get $.values.resources .name }}{{ $_ := set $container "resources" . }}{{ end }}
{{- end }}
{{- range $pod.volumes }}
{{- if .configMap }}{{ $_ := set .configMap "name" (get $.maps .configMap.name) }}{{ end }}
{{- end }}
{{- $_ := mergeOverwrite $pod (deepCopy .values.podSpec) }}
{{- end }}

{{/* Return a file of a folder of deploy/, for the namespace and the queue of this release. */}}
{{- define "kubextend.file" -}}
{{- $root := first . }}
{{- $text := $root.Files.Get (printf "files/%s" (last .)) }}
{{- if not $text }}
{{- fail (printf "files/%s is missing: a packaged chart has it, and a checkout has it with its symbolic links" (last .)) }}
{{- end }}
{{- $queued := printf "['%s']" (join "', '" $root.Values.queue.schedulerNames) }}
{{- $text | replace "kubextend-system" $root.Release.Namespace | replace "['kubextend-scheduler']" $queued }}
{{- end }}
