package props

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/tierkit/tierkit/internal/settings"
)

// Keys of a broker that we read (Kafka 3.9 to 4.4).
const (
	keyNodeID              = "node.id"
	keyBrokerID            = "broker.id"
	keyLogDirs             = "log.dirs"
	keyLogDir              = "log.dir"
	keyListeners           = "listeners"
	keyAdvertised          = "advertised.listeners"
	keyControllerListeners = "controller.listener.names"
	keyProtocolMap         = "listener.security.protocol.map"
	keyMetadataListener    = "remote.log.metadata.manager.listener.name"
	keyCustomMax           = "remote.log.metadata.custom.metadata.max.bytes"
	keyRoles               = "process.roles"
	keyZooKeeper           = "zookeeper.connect"
)

// What a broker's file says of its remote storage.
const (
	KeyStorageEnable   = "remote.log.storage.system.enable"
	KeyManagerClass    = "remote.log.storage.manager.class.name"
	KeyManagerPath     = "remote.log.storage.manager.class.path"
	KeyMetadataManager = keyMetadataListener
)

// Broker returns the value of a key of the broker's, without blanks around it; "" where the file does not have it.
func (f *File) Broker(key string) string { return strings.TrimSpace(f.all[key]) }

// HasPlugin tells a file of a broker with a plug-in for remote storage, ours or another one.
func (f *File) HasPlugin() bool {
	if f.RSMPrefix != "" {
		return true
	}
	for key := range f.all {
		if strings.HasPrefix(key, "remote.log.storage.") {
			return true
		}
	}
	return false
}

// HasBootstrap tells a file whose metadata manager is told itself where brokers are, and needs no listener's name.
func (f *File) HasBootstrap() bool { return f.RLMM[keyBootstrap] != "" }

// HasProviders tells a file whose broker replaces values of the form ${...} before it uses them.
func (f *File) HasProviders() bool { return f.Broker(keyProviders) != "" }

// isBroker tells a key of a broker that may also stand in a file of bare keys.
func isBroker(key string) bool {
	switch key {
	case keyNodeID, keyBrokerID, keyLogDirs, keyLogDir, keyListeners, keyAdvertised, keyControllerListeners, keyProtocolMap, keyRoles, keyProviders:
		return true
	}
	return strings.HasPrefix(key, keyProviders+".") || strings.HasPrefix(key, "remote.log.manager.") ||
		strings.HasPrefix(key, "remote.log.storage.") || strings.HasPrefix(key, "remote.log.metadata.manager.") ||
		key == keyCustomMax
}

// isBrokerFile tells a server.properties.
func (f *File) isBrokerFile() bool {
	return slices.ContainsFunc([]string{keyRoles, keyZooKeeper, keyListeners, keyLogDirs, keyBrokerID, keyNodeID}, func(key string) bool {
		_, ok := f.all[key]
		return ok
	})
}

// BrokerID returns node.id or broker.id, and whether the file has a valid one.
func (f *File) BrokerID() (id int32, ok bool) {
	id, ok, _ = f.brokerID()
	return id, ok
}

func (f *File) brokerID() (id int32, ok bool, err error) {
	for _, key := range []string{keyNodeID, keyBrokerID} {
		text, given := f.all[key]
		text = strings.TrimSpace(text)
		if !given || text == "-1" { // Kafka's default: "none"
			continue
		}
		n, perr := strconv.ParseInt(text, 10, 32)
		switch {
		case perr != nil || n < 0:
			return 0, false, settings.Problemf(key, text, "must be a number in 0..2147483647")
		case ok && int32(n) != id:
			return 0, false, settings.Problemf(key, text, "differs from %s=%d", keyNodeID, id)
		}
		id, ok = int32(n), true
	}
	return id, ok, nil
}

// CustomMetadataMax returns how many bytes of custom metadata the broker keeps for a segment; 0 where the file does not say.
func (f *File) CustomMetadataMax() int {
	n, err := strconv.ParseInt(strings.TrimSpace(f.all[keyCustomMax]), 10, 32)
	if err != nil || n < 0 { // the broker's to report
		return 0
	}
	return int(n)
}

// LogDirs returns log.dirs, or log.dir; nil if the file has neither.
func (f *File) LogDirs() []string {
	text := f.all[keyLogDirs]
	if strings.TrimSpace(text) == "" {
		text = f.all[keyLogDir]
	}
	return splitList(text)
}

// Listener is an address of the broker.
type Listener struct {
	Name     string // upper case, as Kafka normalises it
	Address  string // host:port
	Protocol string // PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, as listener.security.protocol.map has it; "" if it cannot be told
}

// Listeners returns the addresses by which clients reach the broker: advertised.listeners, else listeners, without the controllers'. An
// address without host, or that means every interface, is this machine.
func (f *File) Listeners() []Listener {
	text := f.all[keyAdvertised]
	if strings.TrimSpace(text) == "" {
		text = f.all[keyListeners]
	}
	controllers := splitList(strings.ToUpper(f.all[keyControllerListeners]))
	var out []Listener
	for _, entry := range splitList(text) {
		name, addr, ok := strings.Cut(entry, "://")
		name = strings.ToUpper(strings.TrimSpace(name))
		host, port, err := net.SplitHostPort(strings.TrimSpace(addr))
		if !ok || err != nil || port == "" || slices.Contains(controllers, name) {
			continue
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "localhost"
		}
		out = append(out, Listener{Name: name, Address: net.JoinHostPort(host, port), Protocol: f.protocol(name)})
	}
	return out
}

func (f *File) protocol(listener string) string {
	for _, entry := range splitList(strings.ToUpper(f.all[keyProtocolMap])) {
		if name, protocol, ok := strings.Cut(entry, ":"); ok && strings.TrimSpace(name) == listener {
			return strings.TrimSpace(protocol)
		}
	}
	switch listener {
	case "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL":
		return listener
	}
	return ""
}

// splitList splits at commas and drops spaces and empty elements.
func splitList(text string) []string {
	var out []string
	for e := range strings.SplitSeq(text, ",") {
		if e = strings.TrimSpace(e); e != "" {
			out = append(out, e)
		}
	}
	return out
}
