package main

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What is asked of each pod, of each of its containers, of each Deployment, and of all objects together. A demand
// returns what is wrong, or nothing.
var (
	ofPods       = []func(pod) string{noToken, noServiceLinks, noHost, notRoot, seccomp}
	ofContainers = []func(pod, corev1.Container) string{
		noPrivileges, readOnly, noAddedCapabilities, bounded, pinned, secretsByReference, probed,
	}
	ofDeployments = []func(manifests, appsv1.Deployment) string{twoOfIt, neverFewer, spread, budgeted, timeToEnd}
	ofAll         = []func(manifests) []string{
		oneNamespace, noPublicSecret, deniedByDefault, openOnPurpose, openWhereNeeded, served,
	}
)

// checkManifests returns the faults of all objects.
func checkManifests(m manifests) []string {
	var faults []string
	note := func(name, fault string) {
		if fault != "" {
			faults = append(faults, name+": "+fault)
		}
	}
	for _, p := range m.pods() {
		for _, demand := range ofPods {
			note(p.name, demand(p))
		}
		for _, c := range p.containers() {
			for _, demand := range ofContainers {
				note(p.name, demand(p, c))
			}
		}
	}
	for _, d := range m.Deployments {
		for _, demand := range ofDeployments {
			note(d.Name, demand(m, d))
		}
	}
	for _, demand := range ofAll {
		faults = append(faults, demand(m)...)
	}
	if len(m.Deployments) == 0 {
		faults = append(faults, "no Deployment at all")
	}
	return faults
}

// is reports whether an optional value is there and is that one.
func is[T comparable](value *T, want T) bool { return value != nil && *value == want }

func noToken(p pod) string {
	if !is(p.Spec.AutomountServiceAccountToken, false) {
		return "automountServiceAccountToken must be false"
	}
	return ""
}

func noServiceLinks(p pod) string {
	if !is(p.Spec.EnableServiceLinks, false) {
		return "enableServiceLinks must be false: variables of other Services would come into the settings"
	}
	return ""
}

func noHost(p pod) string {
	if p.Spec.HostNetwork || p.Spec.HostPID || p.Spec.HostIPC {
		return "it must not share a namespace with the host"
	}
	for _, volume := range p.Spec.Volumes {
		if volume.HostPath != nil {
			return "volume " + volume.Name + " is a directory of the host"
		}
	}
	return ""
}

// notRoot wants it said in the file: what the image does may change.
func notRoot(p pod) string {
	s := p.Spec.SecurityContext
	if s == nil || !is(s.RunAsNonRoot, true) || s.RunAsUser == nil || *s.RunAsUser == 0 {
		return "runAsNonRoot must be true, and runAsUser not 0"
	}
	for _, c := range p.containers() {
		if own := c.SecurityContext; own != nil && (own.RunAsUser != nil || own.RunAsNonRoot != nil) {
			return "container " + c.Name + " must not choose its user"
		}
	}
	return ""
}

func seccomp(p pod) string {
	s := p.Spec.SecurityContext
	if s == nil || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		return "seccompProfile must be RuntimeDefault"
	}
	return ""
}

func noPrivileges(_ pod, c corev1.Container) string {
	if s := c.SecurityContext; s == nil || !is(s.AllowPrivilegeEscalation, false) || is(s.Privileged, true) {
		return "allowPrivilegeEscalation must be false, and privileged not set"
	}
	return ""
}

func readOnly(_ pod, c corev1.Container) string {
	if s := c.SecurityContext; s == nil || !is(s.ReadOnlyRootFilesystem, true) {
		return "readOnlyRootFilesystem must be true"
	}
	return ""
}

func noAddedCapabilities(_ pod, c corev1.Container) string {
	s := c.SecurityContext
	if s == nil || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
		len(s.Capabilities.Add) > 0 {
		return "capabilities must drop ALL, and add none"
	}
	return ""
}

func bounded(_ pod, c corev1.Container) string {
	r := c.Resources
	if r.Requests.Cpu().IsZero() || r.Requests.Memory().IsZero() || r.Limits.Memory().IsZero() {
		return "resources must request CPU and memory, and limit memory"
	}
	return ""
}

func pinned(_ pod, c corev1.Container) string {
	if _, tag, tagged := strings.Cut(path.Base(c.Image), ":"); !tagged || tag == "latest" {
		return fmt.Sprintf("image %q must name a version", c.Image)
	}
	return ""
}

// secret is how the name of a setting tells that its value is one.
var secret = regexp.MustCompile(`SECRET|PASSWORD|^DATABASE_URL$`)

func secretsByReference(_ pod, c corev1.Container) string {
	for _, from := range c.EnvFrom {
		if from.SecretRef != nil {
			return "envFrom takes a whole Secret: name the keys that this process needs"
		}
	}
	for _, v := range c.Env {
		if secret.MatchString(v.Name) && (v.ValueFrom == nil || v.ValueFrom.SecretKeyRef == nil) {
			return v.Name + " must come by secretKeyRef"
		}
	}
	return ""
}

func probed(p pod, c corev1.Container) string {
	if !p.stays {
		return ""
	}
	for name, probe := range map[string]*corev1.Probe{
		"startupProbe": c.StartupProbe, "livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe,
	} {
		if probe == nil || probe.HTTPGet == nil || !p.has(probe.HTTPGet.Port.StrVal) {
			return name + " must ask a port of the container by its name"
		}
	}
	return ""
}

func twoOfIt(_ manifests, d appsv1.Deployment) string {
	if d.Spec.Replicas == nil || *d.Spec.Replicas < 2 {
		return "replicas must be 2 or more"
	}
	return ""
}

func neverFewer(_ manifests, d appsv1.Deployment) string {
	s := d.Spec.Strategy
	if s.Type != appsv1.RollingUpdateDeploymentStrategyType || s.RollingUpdate == nil ||
		!is(s.RollingUpdate.MaxUnavailable, intstr.FromInt32(0)) {
		return "strategy must be RollingUpdate with maxUnavailable 0"
	}
	return ""
}

func spread(_ manifests, d appsv1.Deployment) string {
	for _, each := range d.Spec.Template.Spec.TopologySpreadConstraints {
		if each.TopologyKey == corev1.LabelHostname && each.WhenUnsatisfiable == corev1.DoNotSchedule &&
			each.LabelSelector != nil && matches(each.LabelSelector.MatchLabels, d.Spec.Template.Labels) {
			return ""
		}
	}
	return "topologySpreadConstraints must keep its pods on several hosts"
}

func budgeted(m manifests, d appsv1.Deployment) string {
	for _, b := range m.Budgets {
		if b.Spec.Selector != nil && len(b.Spec.Selector.MatchLabels) > 0 &&
			matches(b.Spec.Selector.MatchLabels, d.Spec.Template.Labels) {
			if !is(b.Spec.MaxUnavailable, intstr.FromInt32(1)) {
				return "its PodDisruptionBudget must have maxUnavailable 1"
			}
			return ""
		}
	}
	return "it has no PodDisruptionBudget"
}

// timeToEnd wants it said; whether it is enough is for the settings to tell (deploy/kubernetes_test.go).
func timeToEnd(_ manifests, d appsv1.Deployment) string {
	if d.Spec.Template.Spec.TerminationGracePeriodSeconds == nil {
		return "terminationGracePeriodSeconds must be set"
	}
	return ""
}
