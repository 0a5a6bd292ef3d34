package server

// Live is what can be changed while a Server runs, by the names of Options. Zero means what it means there.
type Live struct {
	Settings            map[string]string
	MaxFetchBytes       int64
	MaxConnections      int
	MaxConnectionsPerIP int
}

// Adjust puts new values in force: for requests and connections that come. Connections that are too many stay.
func (s *Server) Adjust(l Live) {
	o := Options{Settings: l.Settings, MaxFetchBytes: l.MaxFetchBytes, MaxConnections: l.MaxConnections, MaxConnectionsPerIP: l.MaxConnectionsPerIP,
		Host: s.host, Log: s.log, ClusterID: s.o.ClusterID}
	o.setDefaults()
	s.live.Store(&Live{o.Settings, o.MaxFetchBytes, o.MaxConnections, o.MaxConnectionsPerIP})
}
