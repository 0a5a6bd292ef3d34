package randomops

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// disk is a broker's log directory and its metadata topic, written as the broker would: the first error stays and ends the run.
type disk struct {
	logs, meta string
	interval   int // index.interval.bytes
	events     int64
	written    map[string]string // what was written last, of files that are written again and again
	err        error
}

func newDisk(dir string, interval int) *disk {
	d := &disk{logs: filepath.Join(dir, "logs"), meta: filepath.Join(dir, "meta", "__remote_log_metadata-0", format.SegmentFileName(0, ".log")), interval: interval, written: map[string]string{}}
	d.note(os.MkdirAll(d.logs, 0o700))
	d.note(os.MkdirAll(filepath.Dir(d.meta), 0o700))
	d.write(d.meta, nil)
	return d
}

func (d *disk) note(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *disk) write(path string, b []byte) { d.note(os.WriteFile(path, b, 0o600)) }

// replace is write for a file that a host may have open: it keeps what it opened.
func (d *disk) replace(path string, b []byte) {
	d.write(path+".new", b)
	d.note(os.Rename(path+".new", path))
}

// checkpoint is replace for what is often the same as before.
func (d *disk) checkpoint(path string, b []byte) {
	if was, ok := d.written[path]; !ok || was != string(b) {
		d.written[path] = string(b)
		d.replace(path, b)
	}
}

func (d *disk) append(path string, b []byte) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		d.note(err)
		return
	}
	_, err = f.Write(b)
	d.note(err)
	d.note(f.Close())
}

func (d *disk) path(p *partition, base int64, ext string) string {
	return filepath.Join(d.logs, p.id.String(), format.SegmentFileName(base, ext))
}

// create makes an empty log.
func (d *disk) create(p *partition) {
	dir := filepath.Join(d.logs, p.id.String())
	d.note(os.MkdirAll(dir, 0o700))
	d.write(filepath.Join(dir, "partition.metadata"), fmt.Appendf(nil, "version: 0\ntopic_id: %s\n", p.id.TopicID))
	d.rewrite(p, p.active())
}

// rewrite writes a segment with its indexes, whole.
func (d *disk) rewrite(p *partition, s *segment) {
	var raw []byte
	var index format.OffsetIndex
	var txns format.TxnIndex
	since := 0
	for _, b := range s.batches {
		if since > d.interval {
			index = format.AppendOffsetEntry(index, s.base, b.last, int64(len(raw)))
			since = 0
		}
		since += len(b.raw)
		raw = append(raw, b.raw...)
		if b.entry != nil {
			txns = format.AppendAborted(txns, *b.entry)
		}
	}
	d.replace(d.path(p, s.base, ".log"), raw)
	d.replace(d.path(p, s.base, ".index"), index)
	if txns != nil {
		d.replace(d.path(p, s.base, ".txnindex"), txns)
	}
}

// extend writes the newest batch. The offset index is brought up to date when the log is closed, or sooner: it may lag.
func (d *disk) extend(p *partition, b *batch) {
	d.append(d.path(p, p.active().base, ".log"), b.raw)
	if b.entry != nil {
		d.append(d.path(p, p.active().base, ".txnindex"), format.AppendAborted(nil, *b.entry))
	}
}

// roll closes the active segment and begins another.
func (d *disk) roll(p *partition) {
	d.rewrite(p, p.active())
	p.local = append(p.local, &segment{base: p.end})
	d.rewrite(p, p.active())
	d.replace(d.path(p, p.end, ".snapshot"), snapshot(p.open, p.end))
}

// drop deletes a local segment.
func (d *disk) drop(p *partition, s *segment) {
	for _, ext := range []string{".log", ".index", ".txnindex", ".snapshot"} {
		if err := os.Remove(d.path(p, s.base, ext)); !os.IsNotExist(err) {
			d.note(err)
		}
	}
}

// snapshot is a producer snapshot of offset end that holds the open transactions.
func snapshot(open []*txn, end int64) []byte {
	var out []kafkabytes.OpenTxn
	for _, t := range open {
		out = append(out, kafkabytes.OpenTxn{ProducerID: t.pid, FirstOffset: t.first, LastOffset: end - 1})
	}
	return kafkabytes.Snapshot(out...)
}

// checkpoints writes what a broker writes now and then. Without a log start the checkpoint was lost.
func (d *disk) checkpoints(parts []*partition, logStart bool) {
	var starts, hws []string
	for _, p := range parts {
		starts = append(starts, fmt.Sprintf("%s %d %d", p.id.Topic, p.id.Partition, p.logStart))
		hws = append(hws, fmt.Sprintf("%s %d %d", p.id.Topic, p.id.Partition, p.hw))
		lineage := restrict(p.epochs, p.logStart, p.end)
		if p.logStart == 0 {
			lineage = p.epochs
		}
		d.checkpoint(filepath.Join(d.logs, p.id.String(), "leader-epoch-checkpoint"), format.AppendLeaderEpochs(nil, lineage))
	}
	if !logStart {
		starts = nil
	}
	d.checkpoint(filepath.Join(d.logs, "log-start-offset-checkpoint"), lines(starts))
	d.checkpoint(filepath.Join(d.logs, "replication-offset-checkpoint"), lines(hws))
}

// cleaner writes which partitions were compacted.
func (d *disk) cleaner(parts []*partition) {
	var cleaned []string
	for _, p := range parts {
		if p.cleaned {
			cleaned = append(cleaned, fmt.Sprintf("%s %d %d", p.id.Topic, p.id.Partition, p.active().base))
		}
	}
	d.checkpoint(filepath.Join(d.logs, "cleaner-offset-checkpoint"), lines(cleaned))
}

func lines(l []string) []byte {
	return []byte(strings.Join(append([]string{"0", fmt.Sprint(len(l))}, l...), "\n") + "\n")
}

// clean says whether the broker ended in order.
func (d *disk) clean(yes bool) {
	path := filepath.Join(d.logs, ".kafka_cleanshutdown")
	if yes {
		d.write(path, []byte(`{"version":0,"brokerEpoch":1}`))
		return
	}
	if err := os.Remove(path); !os.IsNotExist(err) {
		d.note(err)
	}
}

// publish appends an event to the metadata topic.
func (d *disk) publish(event any) {
	value, err := format.AppendRemoteLogMetadata(nil, event)
	d.note(err)
	h := format.BatchHeader{BaseOffset: d.events, LastOffset: d.events, ProducerID: -1, BaseSequence: -1}
	b, err := format.AppendBatch(nil, h, []format.Record{{Offset: d.events, Value: value}})
	d.note(err)
	d.events++
	d.append(d.meta, b)
}

// started announces an upload.
func (d *disk) started(u *upload) {
	d.publish(&format.SegmentEvent{SegmentMetadata: u.Meta, State: format.CopySegmentStarted})
}

// move publishes that an upload is in another state.
func (d *disk) move(u *upload, to format.SegmentState) {
	u.state = to
	d.publish(&format.SegmentUpdateEvent{TopicIDPartition: u.Meta.TopicIDPartition, SegmentID: u.Meta.SegmentID, BrokerID: 1,
		EventTimestampMs: d.events, State: to})
}
