package events

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestURLOfAnEndpoint(t *testing.T) {
	t.Parallel()
	demo := Addresses{AllowHTTP: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	for url, want := range map[string]string{ // what the complaint says; "": none
		"https://shop.example/payonce":                        "",
		"https://shop.example":                                "",
		"https://shop.example:8443/in?from=payonce":           "",
		"https://93.184.216.34/in":                            "",
		"https://[2606:2800:220:1::1]:443/in":                 "",
		"http://shop.example/in":                              "begins with https://",
		"ftp://shop.example/in":                               "begins with https://",
		"":                                                    "absolute URL",
		"/in":                                                 "absolute URL",
		"https:shop.example":                                  "absolute URL",
		"https:///in":                                         "absolute URL",
		"https://shop.example:x/in":                           "absolute URL",
		"https://shop.example:0/in":                           "port",
		"https://shop.example:65536/in":                       "port",
		"https://user@shop.example/in":                        "user name",
		"https://user:secret@shop.example/in":                 "user name",
		"https://shop.example/in#part":                        "#",
		"https://10.0.0.1/in":                                 "from the internet",
		"https://[::1]/in":                                    "from the internet",
		"https://[fe80::1%25eth0]/in":                         "from the internet",
		"https://localhost/in":                                "from the internet",
		"https://LocalHost./in":                               "from the internet",
		"https://shop.localhost/in":                           "from the internet",
		"https://payments:8443/in":                            "from the internet",
		"https://payments./in":                                "from the internet",
		"https://./in":                                        "from the internet",
		"https://.example/in":                                 "from the internet",
		"https://shop..example/in":                            "from the internet",
		"https://shop.example../in":                           "from the internet",
		"https://2130706433/in":                               "from the internet",
		"https://93.184.55/in":                                "from the internet",
		"https://93.184.216.034/in":                           "from the internet",
		"https://93.184.216.34./in":                           "from the internet",
		"https://0x7f000001/in":                               "from the internet",
		"https://93.184.216.0X22/in":                          "from the internet",
		"https://93.184.216.0x/in":                            "from the internet",
		"https://shop.example./in":                            "",
		"https://0x7f.example/in":                             "",
		"https://1.shop.0xample/in":                           "",
		"https://localhost.example/in":                        "",
		"https://shop.example/" + strings.Repeat("x", maxURL): "2048 bytes",
	} {
		err := Addresses{}.CheckURL(url)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	for _, url := range []string{"http://shop.example/in", "http://127.0.0.1:8080/in",
		"https://[::ffff:127.0.0.1]/in", "http://localhost:8080/in", "http://shop.localhost/in", "http://payments/in"} {
		if err := demo.CheckURL(url); err != nil {
			t.Errorf("the demo refuses %s: %v", url, err)
		}
	}
	for _, url := range []string{"http://127.1/in", "http://2130706433/in", "http://0x7f000001/in", "http://a..b/in"} {
		if demo.CheckURL(url) == nil {
			t.Errorf("the demo takes %s", url)
		}
	}
}

func TestOnlyPublicAddressesAreReached(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.8.8.8",
		"168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1",
		"192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1",
		"240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1",
		"2001::1", "2001:db8::1", "2002:7f00:1::1", "3fff::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0",
		"fec0::1", "ff02::1",
	} {
		if (Addresses{}).mayReach(netip.MustParseAddr(addr)) {
			t.Errorf("%s may be reached", addr)
		}
	}
	for _, addr := range []string{
		"1.1.1.1", "93.184.216.34", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.1",
		"198.17.255.255", "198.20.0.0", "223.255.255.255", "::ffff:1.1.1.1", "2606:4700::1111", "2a00:1450::1",
	} {
		if !(Addresses{}).mayReach(netip.MustParseAddr(addr)) {
			t.Errorf("%s may not be reached", addr)
		}
	}
	one := Addresses{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	if !one.mayReach(netip.MustParseAddr("10.1.2.3")) || !one.mayReach(netip.MustParseAddr("::ffff:10.1.2.3")) ||
		one.mayReach(netip.MustParseAddr("10.2.0.1")) {
		t.Error("a setting allows its network, and no other")
	}
}

// get asks for a URL, as a delivery does.
func get(t *testing.T, a Addresses, url string) error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := a.transport(time.Minute).RoundTrip(r)
	if err == nil {
		err = answer.Body.Close()
	}
	return err
}

// counting is a server of this machine's, and how often it was asked.
func counting(t *testing.T) (server *httptest.Server, asked *int) {
	t.Helper()
	asked = new(int)
	server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { *asked++ }))
	t.Cleanup(server.Close)
	return server, asked
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// Any name may lead to this machine, so only the dial shows where.
func TestNameOfThisMachineIsNotDialled(t *testing.T) {
	t.Parallel()
	server, asked := counting(t)
	name := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	err := get(t, Addresses{AllowHTTP: true}, name)
	if _, ours := errors.AsType[*AddressError](err); !ours || *asked != 0 {
		t.Fatalf("%v; the server was asked %d times", err, *asked)
	}
	if err := get(t, Addresses{AllowHTTP: true, Allow: loopback}, name); err != nil || *asked != 1 {
		t.Fatalf("with the setting: %v; the server was asked %d times", err, *asked)
	}
}

func TestProxyGetsOnlyNamesThatWereChecked(t *testing.T) {
	t.Parallel()
	proxy, asked := counting(t)
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	err = get(t, Addresses{AllowHTTP: true, Proxy: at}, "http://localhost:1/in")
	if _, ours := errors.AsType[*AddressError](err); !ours || *asked != 0 {
		t.Fatalf("%v; the proxy was asked %d times", err, *asked)
	}
	// The proxy itself may be a neighbour.
	if err := get(t, Addresses{AllowHTTP: true, Proxy: at}, "http://1.1.1.1/in"); err != nil || *asked != 1 {
		t.Fatalf("%v; the proxy was asked %d times", err, *asked)
	}
}
