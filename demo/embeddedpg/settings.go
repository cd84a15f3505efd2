package embeddedpg

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// port only names the socket's file; nothing listens on it.
const port = "5432"

// reserved are the settings that keep the server to ourselves, or that finding
// it relies on.
var reserved = []string{"listen_addresses", "port", "unix_socket_directories", "unix_socket_permissions",
	"unix_socket_group", "data_directory", "hba_file", "logging_collector"}

func checkSettings(settings map[string]string) error {
	for name := range settings {
		if slices.Contains(reserved, strings.ToLower(name)) {
			return fmt.Errorf("setting %s cannot be chosen", name)
		}
	}
	return nil
}

// serverSettings go on the command line, which outranks the files in the cluster
// and whatever ALTER SYSTEM has written there.
func serverSettings(socketDir string, o Options) map[string]string {
	settings := map[string]string{
		"timezone":     "UTC",
		"log_timezone": "UTC",
		"cluster_name": "payonce",
		// Failed statements carry keys and tokens, and so do the DETAIL lines of
		// constraint violations. Neither belongs into a log.
		"log_min_error_statement": "panic",
		"log_error_verbosity":     "terse",
		"log_checkpoints":         "off",
	}
	safety := "on"
	if !o.Durable {
		safety = "off"
	}
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		settings[name] = safety
	}
	maps.Copy(settings, o.Settings)
	maps.Copy(settings, map[string]string{
		"listen_addresses":        "",
		"port":                    port,
		"unix_socket_permissions": "0700",
		"unix_socket_directories": `"` + strings.ReplaceAll(socketDir, `"`, `""`) + `"`,
		"logging_collector":       "off",
	})
	return settings
}

// serverCommand prepares the server's own process: under pg_ctl, it would not be
// our child, and neither its end nor its death signal would be ours.
func (h host) serverCommand(as account, programs Binaries, cluster, socketDir string, o Options) *exec.Cmd {
	args := []string{"-D", cluster}
	settings := serverSettings(socketDir, o)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	cmd := h.commandAs(context.Background(), as, cluster, programs.Path("postgres"), args...)
	// When we are killed: SIGINT, the fast shutdown. SIGQUIT would be over sooner,
	// but the next start would have to recover; and that start can wait.
	cmd.SysProcAttr = as.attributes(syscall.SIGINT)
	return cmd
}
