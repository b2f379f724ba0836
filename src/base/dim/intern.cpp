// Interning: one node for each canonical expression, found by content hash in sharded tables.
#include <pthread.h>

#include <algorithm>
#include <array>

#include "base/dim/node.hpp"
#include "base/error.hpp"

namespace gex {

thread_local OpCache::Entry OpCache::entries_[OpCache::kSize];

namespace {

using Kind = Dim::Kind;

// The identity of a node before it exists; lookups allocate nothing.
struct Key {
  Kind kind;
  std::int64_t value = 1;
  std::span<const Dim> operands = {};
  std::string_view name = {};
  DimRange range = {};
  const DimNode* extent = nullptr;
  const DimNode* monomial = nullptr;  // products with a coefficient; derived from the other fields

  Hash hash() const {
    Hash h = hash_combine(static_cast<Hash>(kind) + 1, static_cast<Hash>(value));
    for (Dim d : operands) h = hash_combine(h, d.node()->hash);
    if (kind == Kind::symbol) {
      h = hash_text(name, h);
      if (extent) {
        h = hash_combine(h, extent->hash);
      } else {
        h = hash_combine(h, static_cast<Hash>(range.lo));
        h = hash_combine(h, static_cast<Hash>(range.hi));
      }
    }
    return h;
  }

  bool matches(const DimNode& n) const {
    if (n.kind != kind || n.value != value || n.extent != extent) return false;
    if (kind == Kind::symbol) return n.name == name && (extent || n.range == range);
    return std::ranges::equal(n.operands, operands);
  }
};

struct Shard {
  std::mutex mutex;
  std::vector<const DimNode*> table = std::vector<const DimNode*>(64);
  std::size_t count = 0;

  const DimNode** find(Hash hash, const Key& key) {
    std::size_t mask = table.size() - 1;
    for (std::size_t i = (hash >> 8) & mask;; i = (i + 1) & mask) {
      const DimNode* n = table[i];
      if (!n || (n->hash == hash && key.matches(*n))) return &table[i];
    }
  }

  void grow() {
    std::vector<const DimNode*> old(table.size() * 2);
    old.swap(table);
    std::size_t mask = table.size() - 1;
    for (const DimNode* n : old) {
      if (!n) continue;
      std::size_t i = (n->hash >> 8) & mask;
      while (table[i]) i = (i + 1) & mask;
      table[i] = n;
    }
  }
};

constexpr std::size_t kShards = 16;
constexpr std::int64_t kSmallLow = -128;
constexpr std::int64_t kSmallHigh = 4096;

DimRange sum_range(std::span<const Dim> summands) {
  DimRange r{0, 0};
  for (Dim d : summands) r = range_add(r, d.range());
  return r;
}

DimRange product_range(std::span<const Dim> factors) {
  DimRange r{1, 1};
  for (Dim d : factors) r = range_mul(r, d.range());
  return r;
}

DimNode* build(const Key& key, Hash hash) {
  auto* n = new DimNode;
  n->kind = key.kind;
  n->value = key.value;
  n->hash = hash;
  n->operands.assign(key.operands.begin(), key.operands.end());
  n->name = key.name;
  n->extent = key.extent;
  n->monomial = key.monomial ? key.monomial : n;
  for (Dim d : n->operands) {
    n->symbol_mask |= d.node()->symbol_mask;
    n->needs_facts |= d.node()->needs_facts;
    n->has_index |= d.node()->has_index;
  }
  auto operand_range = [&](int i) { return n->operands[static_cast<std::size_t>(i)].range(); };
  switch (key.kind) {
    case Kind::constant: {
      std::int64_t v = std::clamp(key.value, -DimRange::kInf, DimRange::kInf);
      n->range = {v, v};
      break;
    }
    case Kind::symbol:
      n->symbol_mask = std::uint64_t{1} << (hash % 64);
      n->needs_facts = n->has_index = key.extent != nullptr;
      n->range = key.range;
      break;
    case Kind::add:
      n->range = sum_range(n->operands);
      n->monomial = nullptr;
      break;
    case Kind::mul:
      for (Dim d : n->operands) n->has_division |= d.node()->has_division;
      n->range = product_range(n->operands);
      break;
    case Kind::floordiv:
      n->needs_facts = n->has_division = true;
      n->range = range_floordiv(operand_range(0), operand_range(1));
      break;
    case Kind::mod:
      n->needs_facts = n->has_division = true;
      n->range = range_mod(operand_range(0), operand_range(1));
      break;
    case Kind::min:
      n->range = {std::min(operand_range(0).lo, operand_range(1).lo),
                  std::min(operand_range(0).hi, operand_range(1).hi)};
      break;
    case Kind::max:
      n->range = {std::max(operand_range(0).lo, operand_range(1).lo),
                  std::max(operand_range(0).hi, operand_range(1).hi)};
      break;
  }
  if (n->kind == Kind::mul && n->monomial == n) {
    n->factors = n->operands;
  } else if (n->kind != Kind::constant && n->kind != Kind::add && n->monomial == n) {
    n->factors = {DimFactory::wrap(n)};
  }
  return n;
}

class Interner {
 public:
  static Interner& get() {
    // Never destroyed: Dims in static storage outlive everything.
    static Interner* interner = new Interner;
    return *interner;
  }

  Dim intern(const Key& key) {
    Hash hash = key.hash();
    Shard& shard = shards_[hash % kShards];
    std::lock_guard lock(shard.mutex);
    const DimNode** place = shard.find(hash, key);
    if (!*place) {
      *place = build(key, hash);
      const DimNode* made = *place;
      if (++shard.count * 2 > shard.table.size()) shard.grow();
      return DimFactory::wrap(made);
    }
    return DimFactory::wrap(*place);
  }

  Dim small(std::int64_t value) {
    return DimFactory::wrap(small_[static_cast<std::size_t>(value - kSmallLow)]);
  }

 private:
  Interner() {
    for (std::int64_t v = kSmallLow; v <= kSmallHigh; ++v) {
      small_[static_cast<std::size_t>(v - kSmallLow)] =
          intern({.kind = Kind::constant, .value = v}).node();
    }
    // A child made by fork() must not find a shard locked by a thread that does not exist there.
    pthread_atfork([] { get().lock_all(); }, [] { get().unlock_all(); },
                   [] { get().unlock_all(); });
  }
  void lock_all() {
    for (Shard& s : shards_) s.mutex.lock();
  }
  void unlock_all() {
    for (Shard& s : shards_) s.mutex.unlock();
  }

  std::array<Shard, kShards> shards_;
  std::array<const DimNode*, kSmallHigh - kSmallLow + 1> small_;
};

}  // namespace

Dim DimFactory::constant(std::int64_t value) {
  if (value >= kSmallLow && value <= kSmallHigh) return Interner::get().small(value);
  return Interner::get().intern({.kind = Kind::constant, .value = value});
}

Dim DimFactory::symbol(std::string_view name, DimRange range, const DimNode* extent) {
  return Interner::get().intern(
      {.kind = Kind::symbol, .name = name, .range = range, .extent = extent});
}

Dim DimFactory::atom(Kind kind, Dim a, Dim b) {
  Dim operands[] = {a, b};
  return Interner::get().intern({.kind = kind, .operands = operands});
}

Dim DimFactory::mul(std::int64_t coefficient, std::span<const Dim> atoms) {
  GEX_CHECK(coefficient != 0 && !atoms.empty());
  if (coefficient == 1) {
    if (atoms.size() == 1) return atoms[0];
    return Interner::get().intern({.kind = Kind::mul, .operands = atoms});
  }
  Dim monomial = mul(1, atoms);
  std::vector<Dim> operands{constant(coefficient)};
  operands.insert(operands.end(), atoms.begin(), atoms.end());
  return Interner::get().intern(
      {.kind = Kind::mul, .value = coefficient, .operands = operands, .monomial = monomial.node()});
}

Dim DimFactory::add(std::span<const Dim> summands) {
  GEX_CHECK(summands.size() >= 2);
  return Interner::get().intern({.kind = Kind::add, .operands = summands});
}

}  // namespace gex
