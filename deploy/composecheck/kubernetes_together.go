package main

import (
	"regexp"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// oneNamespace wants it said: kubectl would put the object into the namespace of its own settings.
func oneNamespace(m manifests) []string {
	if len(m.Namespaces) != 1 || m.Namespaces[0].Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		return []string{"there must be one Namespace, and it must enforce restricted"}
	}
	var faults []string
	for _, o := range m.objects() {
		if o.Namespace != m.Namespaces[0].Name {
			faults = append(faults, o.Name+": namespace must be "+m.Namespaces[0].Name)
		}
	}
	return faults
}

// objects are all that live in a namespace.
func (m manifests) objects() []metav1.ObjectMeta {
	var all []metav1.ObjectMeta
	for _, o := range m.ConfigMaps {
		all = append(all, o.ObjectMeta)
	}
	for _, o := range m.Services {
		all = append(all, o.ObjectMeta)
	}
	for _, o := range m.Jobs {
		all = append(all, o.ObjectMeta)
	}
	for _, o := range m.Deployments {
		all = append(all, o.ObjectMeta)
	}
	for _, o := range m.Budgets {
		all = append(all, o.ObjectMeta)
	}
	for _, o := range m.Policies {
		all = append(all, o.ObjectMeta)
	}
	return all
}

// secretValue is what a secret of ours looks like: a key, or a password in a URL.
var secretValue = regexp.MustCompile(`\b[sr]k_(?:live|test)_|whsec_|://[^/@]*:[^/@]+@`)

// noPublicSecret looks at what everybody can read who reads the files.
func noPublicSecret(m manifests) []string {
	var faults []string
	look := func(where, name, value string) {
		if secretValue.MatchString(value) || value != "" && secret.MatchString(name) {
			faults = append(faults, where+": "+name+" is a secret")
		}
	}
	for _, c := range m.ConfigMaps {
		for name, value := range c.Data {
			look(c.Name, name, value)
		}
	}
	for _, p := range m.pods() {
		for _, c := range p.containers() {
			for _, v := range c.Env {
				look(p.name, v.Name, v.Value)
			}
			for _, argument := range slices.Concat(c.Command, c.Args) {
				look(p.name, "an argument", argument)
			}
		}
	}
	return faults
}

func deniedByDefault(m manifests) []string {
	for _, p := range m.Policies {
		if len(p.Spec.PodSelector.MatchLabels)+len(p.Spec.PodSelector.MatchExpressions) == 0 &&
			len(p.Spec.Ingress)+len(p.Spec.Egress) == 0 && len(p.Spec.PolicyTypes) == 2 {
			return nil
		}
	}
	return []string{"no NetworkPolicy denies all pods both ways"}
}

// openOnPurpose wants each rule to name its peers and its ports, and to be about pods that there are.
func openOnPurpose(m manifests) []string {
	var faults []string
	for _, p := range m.Policies {
		selected := 0
		for _, each := range m.pods() {
			if !matches(p.Spec.PodSelector.MatchLabels, each.Labels) {
				continue
			}
			selected++
			for _, in := range p.Spec.Ingress {
				for _, port := range in.Ports {
					if !named(port, each) {
						faults = append(faults, p.Name+": "+each.name+" has no port of that name")
					}
				}
			}
		}
		if selected == 0 {
			faults = append(faults, p.Name+": there are no such pods")
		}
		for _, in := range p.Spec.Ingress {
			if len(in.From) == 0 || len(in.Ports) == 0 {
				faults = append(faults, p.Name+": an ingress must name who, and which port")
			}
		}
		for _, out := range p.Spec.Egress {
			if len(out.To) == 0 || len(out.Ports) == 0 {
				faults = append(faults, p.Name+": an egress must name whom, and which port")
			}
		}
	}
	return faults
}

func named(port networkingv1.NetworkPolicyPort, p pod) bool {
	return port.Port != nil && port.Port.Type == intstr.String && p.has(port.Port.StrVal)
}

// served wants each Service to lead to a port that its pods have.
func served(m manifests) []string {
	var faults []string
	for _, s := range m.Services {
		found := false
		for _, p := range m.pods() {
			if !p.stays || len(s.Spec.Selector) == 0 || !matches(s.Spec.Selector, p.Labels) {
				continue
			}
			found = true
			for _, port := range s.Spec.Ports {
				if !p.has(port.TargetPort.StrVal) {
					faults = append(faults, s.Name+": "+p.name+" has no port "+port.TargetPort.String())
				}
			}
		}
		if !found {
			faults = append(faults, s.Name+": there are no such pods")
		}
	}
	return faults
}
