package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// manifests are the objects of a directory, in Kubernetes' own types.
type manifests struct {
	Namespaces  []corev1.Namespace
	ConfigMaps  []corev1.ConfigMap
	Services    []corev1.Service
	Jobs        []batchv1.Job
	Deployments []appsv1.Deployment
	Budgets     []policyv1.PodDisruptionBudget
	Policies    []networkingv1.NetworkPolicy
}

// readManifests reads each file of a directory.
func readManifests(dir string) (manifests, error) {
	var m manifests
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err == nil && len(files) == 0 {
		err = errors.New("there is no *.yaml in " + dir)
	}
	if err != nil {
		return m, err
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return m, err
		}
		if err := m.add(raw); err != nil {
			return m, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return m, nil
}

// add decodes the documents of a file.
func (m *manifests) add(raw []byte) error {
	for document := range bytes.SplitSeq(raw, []byte("\n---\n")) {
		text, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return err
		}
		var meta metav1.TypeMeta
		if err := json.UnmarshalCaseSensitivePreserveInts(text, &meta); err != nil {
			return err
		}
		if err := m.decode(meta.APIVersion+" "+meta.Kind, text); err != nil {
			return err
		}
	}
	return nil
}

// decode knows the kinds that may be there. So there is no Secret, which would have its content in the file.
func (m *manifests) decode(kind string, text []byte) error {
	switch kind {
	case "v1 Namespace":
		return into(&m.Namespaces, text)
	case "v1 ConfigMap":
		return into(&m.ConfigMaps, text)
	case "v1 Service":
		return into(&m.Services, text)
	case "batch/v1 Job":
		return into(&m.Jobs, text)
	case "apps/v1 Deployment":
		return into(&m.Deployments, text)
	case "policy/v1 PodDisruptionBudget":
		return into(&m.Budgets, text)
	case "networking.k8s.io/v1 NetworkPolicy":
		return into(&m.Policies, text)
	}
	return fmt.Errorf("the kind %q is not known here", kind)
}

// into refuses a member that the type does not have, or has in another case: the server would pass it over.
func into[T any](list *[]T, text []byte) error {
	var object T
	strict, err := json.UnmarshalStrict(text, &object)
	if err := errors.Join(append(strict, err)...); err != nil {
		return err
	}
	*list = append(*list, object)
	return nil
}

// pod is what a Deployment or a Job runs.
type pod struct {
	name string
	corev1.PodTemplateSpec

	stays bool // a Deployment's
}

func (m manifests) pods() []pod {
	var all []pod
	for _, d := range m.Deployments {
		all = append(all, pod{d.Name, d.Spec.Template, true})
	}
	for _, j := range m.Jobs {
		all = append(all, pod{j.Name, j.Spec.Template, false})
	}
	return all
}

// containers are all of a pod's, also those that run before the others.
func (p pod) containers() []corev1.Container {
	return append(append([]corev1.Container{}, p.Spec.InitContainers...), p.Spec.Containers...)
}

// has reports whether a container of the pod has a port of that name.
func (p pod) has(port string) bool {
	for _, c := range p.containers() {
		for _, each := range c.Ports {
			if each.Name == port {
				return true
			}
		}
	}
	return false
}

// matches reports whether labels have all that a selector asks for.
func matches(selector, labels map[string]string) bool {
	for name, value := range selector {
		if labels[name] != value {
			return false
		}
	}
	return true
}
