package events

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Addresses says where deliveries may go. A merchant chooses the URL, and our request comes from inside our network. So
// a request must not reach what only our network can reach: a neighbour, this machine, or the cloud's metadata.
//
// A name may have another address each time it is asked for. So the address is checked that is dialled.
type Addresses struct {
	AllowHTTP bool           // a demo has no certificate
	Allow     []netip.Prefix // networks that may be reached although they are not public
	Proxy     *url.URL       // nil: requests go out directly
}

const maxURL = 2048

// CheckURL says whether an endpoint may have this URL, and if not, what to do.
func (a Addresses) CheckURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Hostname() == "" {
		return errors.New("write an absolute URL, such as https://shop.example/payonce")
	}
	port, portErr := strconv.ParseUint(u.Port(), 10, 16)
	addr, noAddr := netip.ParseAddr(u.Hostname())
	switch {
	case len(raw) > maxURL:
		return fmt.Errorf("write a URL of %d bytes at most", maxURL)
	case u.Scheme != "https" && (u.Scheme != "http" || !a.AllowHTTP):
		return errors.New("write a URL that begins with https://")
	case u.User != nil:
		return errors.New("leave out the user name and the password: each request is signed instead")
	case u.Fragment != "":
		return errors.New("leave out the part from # on: it is never sent")
	case u.Port() != "" && (portErr != nil || port == 0):
		return errors.New("write a port between 1 and 65535, or none")
	case noAddr == nil && !a.mayReach(addr), noAddr != nil && !a.mayName(u.Hostname()):
		return errors.New("write the name or the address of a server that is reachable from the internet")
	}
	return nil
}

// mayName says whether the internet may know this name. So a merchant hears of a wrong one at once, and not by
// deliveries that fail. It is no protection: only the dial shows where a name leads to.
func (a Addresses) mayName(host string) bool {
	labels := strings.Split(strings.ToLower(strings.TrimSuffix(host, ".")), ".")
	top := labels[len(labels)-1]
	switch {
	case slices.Contains(labels, ""), numeric.MatchString(top):
		return false // 127.1 and 0x7f000001 are addresses for some resolvers, and names for others.
	case len(a.Allow) > 0:
		return true // A network of one's own has names of one's own.
	}
	return len(labels) > 1 && top != "localhost" // RFC 6761, section 6.3
}

// numeric finds the last part of a number. No top-level domain has this form.
var numeric = regexp.MustCompile(`^([0-9]+|0x[0-9a-f]*)$`)

// notPublic are the networks of the special-purpose registries of IANA (RFC 6890), without what is public after all.
// Of IPv6, only 2000::/3 is public, so this list names only its exceptions.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),        // this network; a dial to 0.0.0.0 reaches this machine
	netip.MustParsePrefix("10.0.0.0/8"),       // private
	netip.MustParsePrefix("100.64.0.0/10"),    // shared by a provider's customers; 100.100.100.200 is metadata
	netip.MustParsePrefix("127.0.0.0/8"),      // loopback
	netip.MustParsePrefix("168.63.129.16/32"), // metadata of Azure; the one such address inside a public network
	netip.MustParsePrefix("169.254.0.0/16"),   // link-local; 169.254.169.254 is metadata
	netip.MustParsePrefix("172.16.0.0/12"),    // private
	netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments; 192.0.0.192 is metadata
	netip.MustParsePrefix("192.0.2.0/24"),     // documentation
	netip.MustParsePrefix("192.88.99.0/24"),   // relays to IPv6
	netip.MustParsePrefix("192.168.0.0/16"),   // private
	netip.MustParsePrefix("198.18.0.0/15"),    // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"),  // documentation
	netip.MustParsePrefix("203.0.113.0/24"),   // documentation
	netip.MustParsePrefix("224.0.0.0/3"),      // multicast, reserved, broadcast
	netip.MustParsePrefix("2001::/23"),        // protocol assignments; Teredo has an IPv4 address inside
	netip.MustParsePrefix("2001:db8::/32"),    // documentation
	netip.MustParsePrefix("2002::/16"),        // 6to4 has an IPv4 address inside
	netip.MustParsePrefix("3fff::/20"),        // documentation
}

// publicIPv6 is all of IPv6 that is routed. Not in it: loopback, private, link-local and multicast addresses, and those
// that a gateway translates to IPv4 (64:ff9b::/96).
var publicIPv6 = netip.MustParsePrefix("2000::/3")

// mayReach says whether a request may go to this address. ::ffff:10.0.0.1 is 10.0.0.1.
func (a Addresses) mayReach(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	inside := func(p netip.Prefix) bool { return p.Contains(addr) }
	if slices.ContainsFunc(a.Allow, inside) {
		return true
	}
	return (addr.Is4() || publicIPv6.Contains(addr)) && !slices.ContainsFunc(notPublic, inside)
}

// AddressError says that a request was not sent, because of the address that its name has.
type AddressError struct{ Addr string }

func (e *AddressError) Error() string {
	return "nothing is sent to " + e.Addr + ": it is not reachable from the internet"
}

// control is called with the address that is about to be dialled.
func (a Addresses) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !a.mayReach(to.Addr()) {
		return &AddressError{address}
	}
	return nil
}

// transport carries out requests, by HTTP/1.1, where no two requests share a connection at a time. It has a proxy only
// if a setting names one, and none of the environment.
func (a Addresses) transport(timeout time.Duration) http.RoundTripper {
	dialer := &net.Dialer{Timeout: timeout, ControlContext: a.control}
	t := &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: timeout, MaxResponseHeaderBytes: maxHeader,
		MaxIdleConns: maxIdle, IdleConnTimeout: idleTimeout, DisableCompression: true,
	}
	if a.Proxy == nil {
		return t
	}
	dialer.ControlContext = nil // The proxy is dialled. It may be a neighbour.
	t.Proxy = http.ProxyURL(a.Proxy)
	return throughProxy{a, t}
}

const (
	maxHeader   = 64 << 10
	maxIdle     = 200 // connections; net/http keeps two of them for each host
	idleTimeout = 90 * time.Second
)

// throughProxy resolves a name and checks its addresses before the proxy gets the name. The proxy resolves it again, so
// it must refuse such addresses itself: a name may have another address by then.
type throughProxy struct {
	Addresses

	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (p throughProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	found, err := net.DefaultResolver.LookupNetIP(r.Context(), "ip", r.URL.Hostname())
	if err != nil {
		return nil, err
	}
	for _, addr := range found {
		if !p.mayReach(addr) {
			return nil, &AddressError{addr.String()}
		}
	}
	return p.next.RoundTrip(r)
}
