package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// objects are those of a cluster's custom resources, by group/version/plural.
type objects map[string][]json.RawMessage

type kind struct {
	name       string
	namespaced bool
}

// kinds has the resources that the plugins read.
var kinds = map[string]kind{
	"appgroup.diktyo.x-k8s.io/v1alpha1/appgroups":                 {"AppGroup", true},
	"networktopology.diktyo.x-k8s.io/v1alpha1/networktopologies":  {"NetworkTopology", true},
	"scheduling.x-k8s.io/v1alpha1/podgroups":                      {"PodGroup", true},
	"security-profiles-operator.x-k8s.io/v1beta1/seccompprofiles": {"SeccompProfile", true},
	"topology.node.k8s.io/v1alpha2/noderesourcetopologies":        {"NodeResourceTopology", false},
}

// api answers as kube-apiserver does with the objects of a cluster, without a connection.
type api struct {
	objects objects
}

// KubeConfig returns a configuration whose requests the objects of the cluster answer.
func (h *handle) KubeConfig() *rest.Config {
	return &rest.Config{Host: "http://objects", Transport: &api{h.objects}, QPS: -1}
}

func (a *api) RoundTrip(request *http.Request) (*http.Response, error) {
	code, answer := http.StatusOK, a.answer(request.URL.Path)
	if answer == nil {
		code = http.StatusNotFound
		answer = metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure,
			Reason:   metav1.StatusReasonNotFound,
			Code:     http.StatusNotFound,
		}
	}
	body, err := json.Marshal(answer)
	must(err)
	read := io.NopCloser(bytes.NewReader(body))
	if request.URL.Query().Has("watch") {
		read = silence{request.Context()}
	}
	return &http.Response{
		StatusCode: code,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       read,
		Request:    request,
	}, nil
}

// silence is the body of a watch without events.
type silence struct{ watch context.Context }

func (s silence) Read([]byte) (int, error) {
	<-s.watch.Done()
	return 0, io.EOF
}

func (silence) Close() error { return nil }

// answer returns the answer to a path of the API; nil if there is nothing at the path.
func (a *api) answer(path string) any {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case path == "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}}
	case path == "/apis":
		return groups()
	case len(parts) == 3:
		return resources(parts[1] + "/" + parts[2])
	}
	name := strings.Join(parts[1:4], "/")
	if kind, found := kinds[name]; found && len(parts) == 4 {
		return a.list(parts[1]+"/"+parts[2], kind.name, a.objects[name])
	}
	namespace, rest := "", parts[3:]
	if rest[0] == "namespaces" && len(rest) == 4 {
		namespace, rest = rest[1], rest[2:]
	}
	for _, found := range a.objects[parts[1]+"/"+parts[2]+"/"+rest[0]] {
		var names struct{ Metadata metav1.ObjectMeta }
		must(json.Unmarshal(found, &names))
		if names.Metadata.Name == rest[1] && names.Metadata.Namespace == namespace {
			return found
		}
	}
	return nil
}

func (a *api) list(version, kind string, items []json.RawMessage) any {
	if items == nil {
		items = []json.RawMessage{}
	}
	return map[string]any{
		"apiVersion": version,
		"kind":       kind + "List",
		"metadata":   metav1.ListMeta{ResourceVersion: "1"},
		"items":      items,
	}
}

// groups lists the groups of all resources; each has one version.
func groups() any {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
	for name := range kinds {
		parts := strings.Split(name, "/")
		version := metav1.GroupVersionForDiscovery{
			GroupVersion: parts[0] + "/" + parts[1],
			Version:      parts[1],
		}
		list.Groups = append(list.Groups, metav1.APIGroup{
			Name:             parts[0],
			Versions:         []metav1.GroupVersionForDiscovery{version},
			PreferredVersion: version,
		})
	}
	slices.SortFunc(list.Groups, func(a, b metav1.APIGroup) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// resources lists the resources of a group and version; nil if there are none.
func resources(version string) any {
	list := metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"},
		GroupVersion: version,
	}
	for name, kind := range kinds {
		if plural, found := strings.CutPrefix(name, version+"/"); found {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name:       plural,
				Kind:       kind.name,
				Namespaced: kind.namespaced,
				Verbs:      metav1.Verbs{"get", "list", "watch"},
			})
		}
	}
	if list.APIResources == nil {
		return nil
	}
	return list
}
