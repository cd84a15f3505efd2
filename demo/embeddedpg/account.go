package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// account is the user that initdb and the server run as.
type account struct {
	kind accountKind
	name string // for messages
	uid  int    // who the files belong to, seen from outside any namespace
	gid  int
}

type accountKind int

const (
	ourselves accountKind = iota
	// dropped: we are root and change to another user in the child.
	dropped
	// namespaced: the child stays the same user, but in a user namespace
	// without a map it sees its own id as the overflow id, nobody's. That needs
	// no capability at all. Files it creates belong to us.
	namespaced
)

func (h host) ourAccount(kind accountKind) account {
	name := "user " + strconv.Itoa(h.euid)
	if kind == namespaced {
		name += " in a user namespace"
	}
	return account{kind: kind, name: name, uid: h.euid, gid: os.Getegid()}
}

// accounts lists who could run the server, the preferred first. clusterOwner
// is the user id that an existing cluster belongs to, 0 if none or root.
func (h host) accounts(clusterOwner int) []account {
	if h.euid != 0 {
		me, inNamespace := h.ourAccount(ourselves), h.ourAccount(namespaced)
		if _, err := user.LookupId(strconv.Itoa(h.euid)); err != nil {
			// initdb refuses a user without a name, which containers often have.
			return []account{inNamespace, me}
		}
		return []account{me, inNamespace}
	}
	var list []account
	if mayDropRoot() {
		list = h.dropAccounts(clusterOwner)
	}
	return append(list, h.ourAccount(namespaced))
}

// dropAccounts lists the users that root may become. The owner of the cluster
// goes first: after "make demo" and "sudo make demo", the first still works.
func (h host) dropAccounts(clusterOwner int) []account {
	var list []account
	add := func(found *user.User, err error) {
		if err != nil {
			return
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			list = append(list, account{kind: dropped, name: "user " + found.Username, uid: int(uid), gid: int(gid)})
		}
	}
	if clusterOwner != 0 {
		add(user.LookupId(strconv.Itoa(clusterOwner)))
	}
	add(h.lookupUser("postgres"))
	add(h.lookupUser("nobody"))
	return list
}

var errNoAccount = errors.New("PostgreSQL refuses to run as root, and this process can neither change to " +
	"another user nor open a user namespace: run it as an ordinary user")

// accountFor returns an account that can execute the programs: the one given,
// or a namespace, where programs that only we can reach still run as us.
func (h host) accountFor(ctx context.Context, wanted account, programs Binaries) (account, error) {
	server := programs.Path("postgres")
	err := h.try(ctx, wanted, "/", server, "--version")
	if err == nil {
		return wanted, nil
	}
	inNamespace := h.ourAccount(namespaced)
	if wanted.kind != namespaced && h.try(ctx, inNamespace, "/", server, "--version") == nil {
		return inNamespace, nil
	}
	return wanted, fmt.Errorf("run %s as %s: %w", server, wanted.name, err)
}

// canEnter tells whether the account can make dir its working directory. Asking
// the system covers what mode bits alone don't say: ACLs, id maps, capabilities.
func (h host) canEnter(ctx context.Context, as account, dir string) bool {
	return h.try(ctx, as, dir, "/bin/sh", "-c", ":") == nil
}

// try runs a short command as the account, in dir.
func (h host) try(ctx context.Context, as account, dir, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := runAs(h.commandAs(ctx, as, dir, name, args...))
	return err
}

// commandAs prepares a command that is killed when ctx or we end.
func (h host) commandAs(ctx context.Context, as account, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = h.serverEnv()
	cmd.SysProcAttr = as.attributes(syscall.SIGKILL)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// runAs runs the command to its end. Its parent, for the death signal, is the
// thread that started it, so that thread must not end before.
func runAs(cmd *exec.Cmd) (string, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%w %s", err, lastLines(string(out), 10))
	}
	return string(out), nil
}
