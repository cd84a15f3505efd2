package main

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// hardening lists what is asked of each service. A demand returns what is
// wrong, or nothing.
var hardening = []func(*types.Project, types.ServiceConfig) string{
	rootFileSystemIsReadOnly,
	noCapabilities,
	noNewPrivileges,
	userIsNotRoot,
	noHostNamespace,
	healthIsKnown,
	waitsForHealth,
	portsAreLocal,
	noHostPath,
	databaseRoleIsItsOwn,
	imageIsPinned,
	dockerfileExists,
}

// check returns the faults of all services, in the order of their names.
func check(project *types.Project) []string {
	var faults []string
	for _, name := range project.ServiceNames() {
		service := project.Services[name]
		for _, demand := range hardening {
			if fault := demand(project, service); fault != "" {
				faults = append(faults, name+": "+fault)
			}
		}
	}
	if len(project.Services) == 0 {
		faults = append(faults, "no services at all")
	}
	return faults
}

func rootFileSystemIsReadOnly(_ *types.Project, s types.ServiceConfig) string {
	if !s.ReadOnly {
		return "read_only must be true; give it a volume or a tmpfs where it writes"
	}
	return ""
}

func noCapabilities(_ *types.Project, s types.ServiceConfig) string {
	switch {
	case s.Privileged:
		return "privileged must not be set"
	case !slices.Contains(s.CapDrop, "ALL"):
		return "cap_drop must hold ALL"
	case len(s.CapAdd) > 0:
		return "cap_add must be empty"
	}
	return ""
}

func noNewPrivileges(_ *types.Project, s types.ServiceConfig) string {
	if !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
		return "security_opt must hold no-new-privileges:true"
	}
	return ""
}

// userIsNotRoot wants it said in the file: what the image does may change.
func userIsNotRoot(_ *types.Project, s types.ServiceConfig) string {
	user, _, _ := strings.Cut(s.User, ":")
	if user == "" || user == "root" || strings.Trim(user, "0") == "" {
		return fmt.Sprintf("user must be one that is not root, not %q", s.User)
	}
	return ""
}

func noHostNamespace(_ *types.Project, s types.ServiceConfig) string {
	if s.NetworkMode == "host" || s.Pid == "host" || s.Ipc == "host" || s.UserNSMode == "host" || s.Uts == "host" {
		return "it must not share a namespace with the host"
	}
	return ""
}

// healthIsKnown wants a health check of each service that stays up, and wants
// it without a shell, since our image has none.
func healthIsKnown(project *types.Project, s types.ServiceConfig) string {
	if isOneShot(project, s.Name) {
		if s.Restart != "" && s.Restart != "no" {
			return "it is awaited until it completes, so restart must be \"no\""
		}
		return ""
	}
	if s.HealthCheck == nil || s.HealthCheck.Disable || len(s.HealthCheck.Test) == 0 {
		return "healthcheck is missing, and nobody waits for it with service_completed_successfully"
	}
	if s.HealthCheck.Test[0] != "CMD" {
		return "healthcheck must be an argument list that starts with CMD"
	}
	return ""
}

func isOneShot(project *types.Project, name string) bool {
	for _, other := range project.Services {
		if other.DependsOn[name].Condition == types.ServiceConditionCompletedSuccessfully {
			return true
		}
	}
	return false
}

func waitsForHealth(_ *types.Project, s types.ServiceConfig) string {
	for name, dependency := range s.DependsOn {
		if dependency.Condition == types.ServiceConditionStarted {
			return "depends_on " + name + " must wait for its health, not for its start"
		}
	}
	return ""
}

// portsAreLocal because the secrets in the file are public.
func portsAreLocal(_ *types.Project, s types.ServiceConfig) string {
	for _, port := range s.Ports {
		if address, err := netip.ParseAddr(port.HostIP); err != nil || !address.IsLoopback() {
			return fmt.Sprintf("port %d must be published on 127.0.0.1 only", port.Target)
		}
	}
	return ""
}

func noHostPath(_ *types.Project, s types.ServiceConfig) string {
	for _, volume := range s.Volumes {
		if volume.Type == types.VolumeTypeBind {
			return "volume " + volume.Source + " is a directory of the host: use a named volume"
		}
	}
	return ""
}

// databaseRoleIsItsOwn because a role that two services share has the rights of both.
func databaseRoleIsItsOwn(project *types.Project, s types.ServiceConfig) string {
	user, password := databaseRole(s)
	if user == "" {
		return ""
	}
	for _, name := range project.ServiceNames() {
		otherUser, otherPassword := databaseRole(project.Services[name])
		if name != s.Name && (user == otherUser || password != "" && password == otherPassword) {
			return "it logs in to the database like " + name + ": give it a role and a password of its own"
		}
	}
	return ""
}

func databaseRole(s types.ServiceConfig) (user, password string) {
	value := s.Environment["DATABASE_URL"]
	if value == nil {
		return "", ""
	}
	u, err := url.Parse(*value)
	if err != nil {
		return "", ""
	}
	password, _ = u.User.Password()
	return u.User.Username(), password
}

func imageIsPinned(_ *types.Project, s types.ServiceConfig) string {
	_, tag, tagged := strings.Cut(filepath.Base(s.Image), ":")
	if !tagged || tag == "latest" {
		return fmt.Sprintf("image %q must name a version", s.Image)
	}
	return ""
}

func dockerfileExists(_ *types.Project, s types.ServiceConfig) string {
	if s.Build == nil {
		return ""
	}
	file := s.Build.Dockerfile
	if !filepath.IsAbs(file) {
		file = filepath.Join(s.Build.Context, file)
	}
	if _, err := os.Stat(file); err != nil {
		return "build.dockerfile: " + err.Error()
	}
	return ""
}
