package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// CheckAddress refuses what is no address to listen on, by the name of its setting. A port is a number, and must be
// there: package net would take "localhost:" for any free port.
func CheckAddress(setting, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%s is %q, must be host:port or :port, such as :8080", setting, addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%s is %q: its port must be a number from 0 to 65535, such as :8080", setting, addr)
	}
	return nil
}

// checkBase refuses a URL that paths cannot be added to. The value is not repeated: somebody may have put a password
// into it.
func checkBase(setting, raw string) error {
	if u, err := url.Parse(raw); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("%s must be an http or https URL, such as https://pay.example", setting)
	} else if u.User != nil || strings.ContainsAny(raw, "?#") {
		return fmt.Errorf("%s must have neither a user nor a query nor a fragment: paths are added to it, and others read it", setting)
	}
	return nil
}

// checkPublic refuses also a path that clients would follow to elsewhere: one that begins with two slashes or has a
// backslash names another host to a browser.
func checkPublic(raw string) error {
	if err := checkBase("PUBLIC_URL", raw); err != nil {
		return err
	}
	if u, err := url.Parse(raw); err != nil || path.Clean("/"+u.Path) != "/"+strings.TrimPrefix(u.Path, "/") ||
		!strings.HasSuffix(raw, u.EscapedPath()) {
		return errors.New(`the path of PUBLIC_URL must have neither an empty part nor "." nor "..", and its characters ` +
			"must be escaped where a URL asks for it: the paths in answers begin with it")
	}
	return nil
}

// publicURLFrom fills in PUBLIC_URL from HTTP_ADDR. What is wrong then is wrong with HTTP_ADDR: nobody has set the
// other.
func (c *Shared) publicURLFrom(httpAddr string) error {
	if c.PublicURL == "" {
		if err := CheckAddress("HTTP_ADDR", httpAddr); err != nil {
			return err
		}
		c.PublicURL = LocalURL(httpAddr)
		u, err := url.Parse(c.PublicURL)
		if err != nil || u.Host != strings.TrimPrefix(c.PublicURL, "http://") || u.Hostname() == "" {
			return fmt.Errorf("HTTP_ADDR is %q, which makes no URL: name a host that does, or set PUBLIC_URL", httpAddr)
		}
	}
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	return nil
}

// LocalURL is how this machine reaches the server that listens on addr.
func LocalURL(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err != nil || host != "" && (ip == nil || !ip.IsUnspecified() && !ip.IsLoopback()) {
		return "http://" + addr
	}
	return "http://" + net.JoinHostPort("localhost", port)
}

// ownURL is how this machine reaches the server that listens on addr, by no host but localhost.
func ownURL(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	return "http://" + net.JoinHostPort("localhost", port)
}
