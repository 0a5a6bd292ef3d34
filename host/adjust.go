package host

import "time"

// Live is what can be changed while a Host runs, by the names of Config. Zero means what it means there.
type Live struct {
	IndexCacheBytes int64
	ReaderThreads   int
	ReaderPending   int
	RemoteWait      time.Duration
	BytesPerSecond  int64 // of Config.Quota
	SlowRead        time.Duration
}

// Live gives the part of a configuration that can be changed later.
func (c *Config) Live() Live {
	return Live{IndexCacheBytes: c.IndexCacheBytes, ReaderThreads: c.ReaderThreads, ReaderPending: c.ReaderPending, RemoteWait: c.RemoteWait,
		BytesPerSecond: c.Quota.BytesPerSecond, SlowRead: c.SlowRead}
}

// Adjust puts new values in force, for what begins from now on; what is too much in the index cache leaves at once.
func (h *Host) Adjust(l Live) {
	h.indexes.Resize(l.IndexCacheBytes)
	h.reader.Resize(l.ReaderThreads, l.ReaderPending)
	h.reader.SetWait(l.RemoteWait)
	h.reader.SetQuota(l.BytesPerSecond)
	h.watch.slow.Store(int64(l.SlowRead))
}
