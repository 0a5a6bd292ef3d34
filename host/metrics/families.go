package metrics

import (
	"runtime"
	"time"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/server"
	"github.com/rsmhost/rsmhost/host/tally"
)

// families are all metrics but those of the Go runtime and the process. docs/metrics.md lists the same; a test holds one
// against the other.
var families = []family{
	// A broker's names.
	{"kafka_server_brokertopicmetrics_remotefetchbytes_total", "Bytes that successful remote reads gave.", counter, topic,
		perTopic(func(t *host.TopicStats) float64 { return float64(t.Read.RemoteBytes) })},
	{"kafka_server_brokertopicmetrics_remotefetchrequests_total", "Remote reads of one partition that were begun.", counter, topic,
		perTopic(func(t *host.TopicStats) float64 { return float64(t.Read.RemoteRequests) })},
	{"kafka_server_brokertopicmetrics_remotefetcherrors_total", "Remote reads that failed, but for an offset out of range.", counter, topic,
		perTopic(func(t *host.TopicStats) float64 { return float64(t.Read.RemoteErrors) })},
	{"kafka_server_brokertopicmetrics_remotelogsizebytes", "Bytes in the remote tier, as of a minute ago at most.", gauge, topic,
		perTopic(func(t *host.TopicStats) float64 { return float64(t.Bytes) })},
	{"kafka_server_brokertopicmetrics_remotelogmetadatacount", "Segments in the remote log metadata.", gauge, topic,
		perTopic(func(t *host.TopicStats) float64 { return float64(t.Segments) })},
	{"kafka_server_brokertopicmetrics_remotelogsizecomputationtime", "Milliseconds that it took to add up the bytes in the remote tier, of all topics.", gauge, nil,
		one(func(s *snapshot) float64 { return float64(s.host.SizesTook) / float64(time.Millisecond) })},
	{"kafka_log_remote_remotestoragethreadpool_remotelogreadertaskqueuesize", "Remote reads that wait for a reader.", gauge, nil,
		one(func(s *snapshot) float64 { return float64(s.host.Reader.Pool.Queued) })},
	{"kafka_log_remote_remotestoragethreadpool_remotelogreaderavgidlepercent", "Share of the remote readers that have nothing to do, 0 to 1.", gauge, nil,
		one(func(s *snapshot) float64 { return idle(s.host.Reader.Pool.Running, s.host.Reader.Pool.Threads) })},
	{"kafka_log_remote_remotelogmanager_remotelogreaderfetchrateandtimems", "Remote reads by the milliseconds that they ran, once they had a reader.", summary, nil,
		took(func(s *snapshot) tally.Durations { return s.host.Reader.RemoteReads })},
	{"kafka_server_delayedremotefetchmetrics_expires_total", "Partitions of fetches that were answered before their remote read was ready.", counter, nil,
		one(func(s *snapshot) float64 { return float64(s.host.Reader.LateLeft) })},
	{"kafka_server_delayedremotelistoffsetsmetrics_expires_total", "Partitions of ListOffsets that their deadline ended.", counter, nil,
		one(func(s *snapshot) float64 { return float64(s.host.Reader.OffsetsExpired) })},
	{"kafka_server_delayedoperationpurgatory_numdelayedoperations", "Requests that wait for the remote tier.", gauge, []string{"delayed_operation"}, delayed},
	{"kafka_server_delayedoperationpurgatory_purgatorysize", "The same as numdelayedoperations: here nothing waits but in its own request.", gauge, []string{"delayed_operation"}, delayed},
	{"kafka_server_remotelogmanager_remote_fetch_throttle_time", "Remote reads that waited for the fetch quota, by milliseconds.", summary, nil,
		took(func(s *snapshot) tally.Durations { return s.host.Reader.Throttled })},
	{"kafka_server_rlmfetch_byte_rate", "Bytes a second of remote reads over the windows of the fetch quota; 0 while there is no quota.", gauge, nil,
		one(func(s *snapshot) float64 { return s.host.Reader.ByteRate })},
	{"kafka_network_requestmetrics_remotetimems", "Fetches that waited for the remote tier, by milliseconds.", summary, []string{"request"},
		func(s *snapshot) []sample {
			return []sample{{labels: []string{"FetchConsumer"}, took: s.host.Reader.RemoteWaits}}
		}},

	// What is in memory and on disk.
	{"rsmhost_memory_used_bytes", "Bytes that reads and caches hold of memory.max.", gauge, nil, one(func(s *snapshot) float64 { return float64(s.host.Memory.Used) })},
	{"rsmhost_memory_limit_bytes", "Bytes that memory.max allows.", gauge, nil, one(func(s *snapshot) float64 { return float64(s.host.Memory.Limit) })},
	{"rsmhost_memory_peak_bytes", "The most bytes that were held of memory.max.", gauge, nil, one(func(s *snapshot) float64 { return float64(s.host.Memory.Peak) })},
	{"rsmhost_memory_waiting", "Reads that wait for bytes of memory.max.", gauge, nil, one(func(s *snapshot) float64 { return float64(s.host.Memory.Waiting) })},
	{"rsmhost_index_cache_requests_total", "Indexes that were asked for, by who answered.", counter, []string{"result"}, indexRequests},
	{"rsmhost_index_cache_bytes", "Bytes of indexes that are kept.", gauge, []string{"where"}, func(s *snapshot) []sample {
		return []sample{{labels: []string{"memory"}, value: float64(s.host.Indexes.MemoryBytes)}, {labels: []string{"disk"}, value: float64(s.host.Indexes.DiskBytes)}}
	}},
	{"rsmhost_index_cache_entries", "Indexes that are kept.", gauge, []string{"where"}, func(s *snapshot) []sample {
		return []sample{{labels: []string{"memory"}, value: float64(s.host.Indexes.MemoryEntries)}, {labels: []string{"disk"}, value: float64(s.host.Indexes.DiskEntries)}}
	}},
	{"rsmhost_index_cache_evictions_total", "Indexes that left the cache.", counter, []string{"where"}, func(s *snapshot) []sample {
		return []sample{{labels: []string{"memory"}, value: float64(s.host.Indexes.Evictions)}, {labels: []string{"disk"}, value: float64(s.host.Indexes.DiskEvictions)}}
	}},
	{"rsmhost_index_cache_limit_bytes", "Bytes that remote.log.index.file.cache.total.size.bytes allows on disk; 0 without a cache directory.", gauge, nil,
		one(func(s *snapshot) float64 { return float64(s.host.Indexes.DiskLimit) })},

	// The store and the plugin.
	{"rsmhost_transfer_requests_total", "Requests of the store: reads of a location, and streams that were opened.", counter, nil,
		one(func(s *snapshot) float64 { return float64(s.host.Transfer.Requests) })},
	{"rsmhost_transfer_bytes_total", "Bytes that were moved from the store to readers.", counter, nil, one(func(s *snapshot) float64 { return float64(s.host.Transfer.Bytes) })},
	{"rsmhost_transfer_shared_bytes_total", "Bytes moved from the store to readers that another read had brought.", counter, nil, one(func(s *snapshot) float64 { return float64(s.host.Transfer.Shared) })},
	{"rsmhost_transfer_skipped_bytes_total", "Bytes of streams that were passed over.", counter, nil, one(func(s *snapshot) float64 { return float64(s.host.Transfer.Skipped) })},
	{"rsmhost_transfer_retries_total", "Tries of the store that followed a failure.", counter, nil, one(func(s *snapshot) float64 { return float64(s.host.Transfer.Retries) })},
	{"rsmhost_plugin_calls_total", "Calls of the plugin, by method and by the kind of error, OK without one.", counter, []string{"method", "kind"}, pluginCalls},
	{"rsmhost_plugin_call_seconds", "How long calls of the plugin took.", histogram, []string{"method"}, pluginTook},
	{"rsmhost_plugin_starts_total", "Plugins that were started.", counter, nil, one(func(s *snapshot) float64 {
		if s.plugin == nil {
			return 0
		}
		return float64(s.plugin.starts)
	})},
	{"rsmhost_plugin_info", "1: the plugin that runs.", gauge, []string{"name", "version", "file", "placement"}, func(s *snapshot) []sample {
		if s.plugin == nil {
			return nil
		}
		return []sample{{labels: []string{s.plugin.name, s.plugin.version, s.plugin.file, s.plugin.placement}, value: 1}}
	}},

	// Reads.
	{"rsmhost_reader_threads", "Remote readers that there are: remote.log.reader.threads.", gauge, nil, one(func(s *snapshot) float64 { return float64(s.host.Reader.Pool.Threads) })},
	{"rsmhost_reader_running", "Remote readers that read.", gauge, nil, one(func(s *snapshot) float64 { return float64(s.host.Reader.Pool.Running) })},
	{"rsmhost_reader_waiting", "Remote reads that wait to be let into the queue.", gauge, nil, one(func(s *snapshot) float64 { return float64(s.host.Reader.Pool.Outside) })},
	{"rsmhost_late_reads_kept", "Remote reads that are kept for a client that asks again.", gauge, nil, one(func(s *snapshot) float64 { return float64(s.host.Reader.LateKept) })},
	{"rsmhost_late_reads_answered_total", "Partitions of fetches that were answered from a read that an earlier one began.", counter, nil,
		one(func(s *snapshot) float64 { return float64(s.host.Reader.LateAnswered) })},
	{"rsmhost_local_bytes_total", "Bytes that came from the local tier.", counter, topic, perTopic(func(t *host.TopicStats) float64 { return float64(t.Read.LocalBytes) })},
	{"rsmhost_step_seconds", "How long the steps of reads took, by their name in a trace.", histogram, []string{"step"}, func(s *snapshot) []sample {
		return byName(s.host.Steps)
	}},
	{"rsmhost_slow_reads_total", "Reads that took longer than slow.read.ms.", counter, nil, one(func(s *snapshot) float64 { return float64(s.host.SlowReads) })},

	// Metadata.
	{"rsmhost_metadata_lookups_total", "Lookups of a segment by leader epoch and offset.", counter, topic, perTopic(func(t *host.TopicStats) float64 { return float64(t.Read.Lookups) })},
	{"rsmhost_metadata_looks_total", "Looks at the metadata source and the log directories.", counter, nil, one(func(s *snapshot) float64 { return float64(s.host.Looks.Count) })},
	{"rsmhost_metadata_look_failures_total", "Looks at the metadata source and the log directories that could not read something.", counter, nil, one(func(s *snapshot) float64 { return float64(s.host.Looks.Failures) })},
	{"rsmhost_metadata_age_seconds", "Seconds since the last look at the metadata source and the log directories that read everything.", gauge, nil, one(age)},
	{"rsmhost_topics", "Topics that are served.", gauge, nil, one(func(s *snapshot) float64 { return float64(len(s.host.Topics)) })},
	{"rsmhost_partitions", "Partitions that are served.", gauge, topic, perTopic(func(t *host.TopicStats) float64 { return float64(t.Partitions) })},

	// Clients.
	{"rsmhost_connections", "Connections that are open.", gauge, nil, one(func(s *snapshot) float64 { return float64(s.server.Connections) })},
	{"rsmhost_connections_accepted_total", "Connections that came.", counter, nil, one(func(s *snapshot) float64 { return float64(s.server.Accepted) })},
	{"rsmhost_connections_closed_total", "Connections that were closed here, by why.", counter, []string{"reason"}, closed},
	{"rsmhost_denied_total", "What the rules denied, by kind of resource.", counter, []string{"resource"}, func(s *snapshot) (out []sample) {
		for kind, n := range s.server.Denied {
			out = append(out, sample{labels: []string{kind}, value: float64(n)})
		}
		return out
	}},
	{"rsmhost_requests_total", "Requests, by api.", counter, []string{"request"}, requests},
	{"rsmhost_request_errors_total", "Error codes that clients were told, one for each partition or resource.", counter, []string{"request", "code"}, requestErrors},
	{"rsmhost_request_seconds", "How long requests took: from their turn until the answer was taken, with the wait for data.", histogram, []string{"request"}, requestTook},
	{"rsmhost_client_requests_total", "Requests, by client id; 100 ids and the rest.", counter, client, perClient(func(c server.ClientStats) float64 { return float64(c.Requests) })},
	{"rsmhost_client_errors_total", "Error codes that a client was told, by client id.", counter, client, perClient(func(c server.ClientStats) float64 { return float64(c.Errors) })},
	{"rsmhost_client_remote_bytes_total", "Bytes of a client's answers that the remote tier was asked for.", counter, client, perClient(func(c server.ClientStats) float64 { return float64(c.RemoteBytes) })},
	{"rsmhost_unsent_bytes", "Bytes of answers that clients have not taken yet.", gauge, nil, one(func(s *snapshot) float64 { return float64(s.server.UnsentBytes) })},
	{"rsmhost_waiting_fetches", "Fetches that wait for data.", gauge, nil, one(func(s *snapshot) float64 { return float64(s.server.Waiting) })},
	{"rsmhost_fetch_sessions", "Fetch sessions.", gauge, nil, one(func(s *snapshot) float64 { return float64(s.server.Sessions) })},
	{"rsmhost_fetch_session_partitions", "Partitions of all fetch sessions.", gauge, nil, one(func(s *snapshot) float64 { return float64(s.server.SessionPartitions) })},

	// The program.
	{"rsmhost_config_reloads_total", "Reloads of the configuration, by what became of them.", counter, []string{"result"}, func(s *snapshot) []sample {
		return []sample{{labels: []string{"applied"}, value: float64(s.applied)}, {labels: []string{"refused"}, value: float64(s.refused)}}
	}},
	{"rsmhost_build_info", "1: what runs.", gauge, []string{"version", "goversion"}, func(s *snapshot) []sample {
		return []sample{{labels: []string{s.version, runtime.Version()}, value: 1}}
	}},
}

var (
	topic  = []string{"topic"}
	client = []string{"client"}
)

func one(v func(*snapshot) float64) func(*snapshot) []sample {
	return func(s *snapshot) []sample { return []sample{{value: v(s)}} }
}

func took(v func(*snapshot) tally.Durations) func(*snapshot) []sample {
	return func(s *snapshot) []sample { return []sample{{took: v(s)}} }
}

func perTopic(v func(*host.TopicStats) float64) func(*snapshot) []sample {
	return func(s *snapshot) (out []sample) {
		for i := range s.host.Topics {
			out = append(out, sample{labels: []string{s.host.Topics[i].Name}, value: v(&s.host.Topics[i])})
		}
		return out
	}
}

func perClient(v func(server.ClientStats) float64) func(*snapshot) []sample {
	return func(s *snapshot) (out []sample) {
		for id, c := range s.server.Clients {
			out = append(out, sample{labels: []string{id}, value: v(c)})
		}
		return out
	}
}

func byName(all map[string]tally.Durations) (out []sample) {
	for name, d := range all {
		out = append(out, sample{labels: []string{name}, took: d})
	}
	return out
}

// idle is the share of readers that don't read; a pool that was made smaller may have more readers than it should.
func idle(running, threads int) float64 {
	return max(0, 1-float64(running)/float64(threads))
}

// age is how long ago everything was read; opening is a look.
func age(s *snapshot) float64 {
	if s.host.Looks.Good.IsZero() {
		return 0
	}
	return s.now.Sub(s.host.Looks.Good).Seconds()
}

func delayed(s *snapshot) []sample {
	return []sample{{labels: []string{"RemoteFetch"}, value: float64(s.host.Reader.FetchesWaiting)},
		{labels: []string{"RemoteListOffsets"}, value: float64(s.host.Reader.OffsetsWaiting)}}
}

func indexRequests(s *snapshot) []sample {
	x := &s.host.Indexes
	return []sample{{labels: []string{"memory"}, value: float64(x.MemoryHits)}, {labels: []string{"disk"}, value: float64(x.DiskHits)},
		{labels: []string{"load"}, value: float64(x.Loads)}, {labels: []string{"failed"}, value: float64(x.Failures)}}
}

func pluginCalls(s *snapshot) (out []sample) {
	for method, p := range s.host.Plugin {
		for kind, n := range p.Kinds {
			out = append(out, sample{labels: []string{method, kind}, value: float64(n)})
		}
	}
	return out
}

func pluginTook(s *snapshot) (out []sample) {
	for method, p := range s.host.Plugin {
		out = append(out, sample{labels: []string{method}, took: p.Took})
	}
	return out
}

func closed(s *snapshot) []sample {
	return []sample{{labels: []string{"too_many"}, value: float64(s.server.Refused)}, {labels: []string{"answer_not_taken"}, value: float64(s.server.Shed)},
		{labels: []string{"protocol"}, value: float64(s.server.Broken)}, {labels: []string{"authentication"}, value: float64(s.server.Strangers)}}
}

func requests(s *snapshot) (out []sample) {
	for name, r := range s.server.Requests {
		out = append(out, sample{labels: []string{name}, value: float64(r.Took.Count)})
	}
	return out
}

func requestTook(s *snapshot) (out []sample) {
	for name, r := range s.server.Requests {
		out = append(out, sample{labels: []string{name}, took: r.Took})
	}
	return out
}

func requestErrors(s *snapshot) (out []sample) {
	for name, r := range s.server.Requests {
		for code, n := range r.Errors {
			out = append(out, sample{labels: []string{name, code}, value: float64(n)})
		}
	}
	return out
}
