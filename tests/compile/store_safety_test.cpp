// The compile cache next to foreign files: they are neither read nor removed.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "cache/store.hpp"
#include "cache/store_folder.hpp"
#include "cache_fixture.hpp"

namespace gex::test {
namespace {

void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

program::Artefact some_artefact(std::size_t bytes = 100) {
  program::Artefact artefact;
  artefact.sections.push_back({"bytes", std::string(bytes, 'x')});
  return artefact;
}

Digest key_of(int i) { return digest_of(std::to_string(i)); }

TEST_F(Cache, ClearKeepsAFolderThatGexDidNotCreate) {
  const fs::path foreign = folder_ + "/proj/program/src/main.c";
  write_text(foreign, "int main() {}");
  Store store(folder_ + "/proj");
  EXPECT_TRUE(store.entries().empty());
  EXPECT_EQ(store.clear(), 0);
  EXPECT_TRUE(fs::exists(foreign));
}

TEST_F(Cache, NothingIsCachedInAFolderThatGexDidNotCreate) {
  write_text(folder_ + "/proj/object/notes.txt", "mine");
  Store store(folder_ + "/proj", 500);
  for (int i = 0; i < 8; ++i) store.save("object", key_of(i), some_artefact());
  EXPECT_FALSE(store.load("object", key_of(0)).has_value());
  store.trim();
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_ + "/proj/object"))
    names.push_back(entry.path().filename());
  EXPECT_EQ(names, std::vector<std::string>{"notes.txt"});
}

TEST_F(Cache, ForeignFilesInItsFoldersStay) {
  store_->save("object", key_of(1), some_artefact());
  const std::string kind = store_->folder() + "/object", key = key_of(1).hex();
  const std::string shard = kind + "/" + key.substr(0, 2);
  const std::string same_form = shard + "/" + key.substr(0, 63) + (key[63] == '0' ? '1' : '0');
  const std::vector<fs::path> foreign = {kind + "/main.c", kind + "/src/main.c",
                                         shard + "/thesis.tex", shard + "/x.writing.1.0",
                                         same_form};
  for (const fs::path& path : foreign) {
    write_text(path, "mine");
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(48));
  }
  EXPECT_EQ(store_->clear(), 1);
  Store small(store_->folder(), 1);
  small.save("object", key_of(2), some_artefact());
  small.trim();
  for (const fs::path& path : foreign) EXPECT_TRUE(fs::exists(path)) << path;
  EXPECT_FALSE(small.load("object", key_of(2)).has_value());
}

TEST_F(Cache, LinksOutOfTheCacheAreNotFollowed) {
  store_->save("object", key_of(1), some_artefact());
  const std::string shard = store_->folder() + "/object/" + key_of(1).hex().substr(0, 2);
  // The same cache, moved away and linked: its files look exactly like entries.
  fs::rename(shard, folder_ + "/elsewhere");
  fs::create_directory_symlink(folder_ + "/elsewhere", shard);
  EXPECT_TRUE(store_->entries().empty());
  EXPECT_FALSE(store_->load("object", key_of(1)).has_value());
  EXPECT_EQ(store_->clear(), 0);
  EXPECT_TRUE(fs::exists(folder_ + "/elsewhere/" + key_of(1).hex()));

  fs::rename(store_->folder() + "/object", folder_ + "/objects");
  fs::create_directory_symlink(folder_ + "/objects", store_->folder() + "/object");
  EXPECT_TRUE(store_->entries().empty());
  EXPECT_FALSE(store_->load("object", key_of(1)).has_value());
}

TEST_F(Cache, FoldersThatOthersMayWriteAreNotUsed) {
  store_->save("object", key_of(1), some_artefact());
  const std::string key = key_of(1).hex();
  for (const std::string& path : {store_->folder(), store_->folder() + "/object",
                                  store_->folder() + "/object/" + key.substr(0, 2)}) {
    ASSERT_EQ(::chmod(path.c_str(), 0770), 0);
    EXPECT_FALSE(store_->load("object", key_of(1)).has_value()) << path;
    EXPECT_EQ(store_->clear(), 0) << path;
    ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
    EXPECT_TRUE(store_->load("object", key_of(1)).has_value()) << path;
  }
}

TEST_F(Cache, APipeInPlaceOfAnEntryDoesNotBlock) {
  store_->save("object", key_of(1), some_artefact());
  const std::string path = store_->entries().at(0).path;
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(store_->load("object", key_of(1)).has_value());
  EXPECT_TRUE(store_->entries().empty());
  store_->save("object", key_of(1), some_artefact());
  EXPECT_TRUE(store_->load("object", key_of(1)).has_value());
}

TEST_F(Cache, AbandonedTemporaryFilesAreRemoved) {
  store_->save("object", key_of(1), some_artefact());
  const std::string abandoned = store_->entries().at(0).path + ".writing.1.2.3";
  std::ofstream(abandoned) << "GEXART\r\n half";
  EXPECT_EQ(store_->entries().size(), 1U);
  EXPECT_TRUE(fs::exists(abandoned));
  fs::last_write_time(abandoned, fs::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_EQ(store_->entries().size(), 1U);
  EXPECT_FALSE(fs::exists(abandoned));
}

TEST_F(Cache, EmptyEntriesOfACrashedMachineAreRemoved) {
  store_->save("object", key_of(1), some_artefact());
  fs::resize_file(store_->entries().at(0).path, 0);
  EXPECT_EQ(store_->clear(), 1);
}

}  // namespace
}  // namespace gex::test
